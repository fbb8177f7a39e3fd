/**
 * The files of a model on a server. They come in chunks by Range, several at once, each once; where there is no Range, whole.
 * What a cache holds is not asked for again: the server only says whether its file is still the same.
 */
import { CHUNK } from "./cache.js";
import { Transfer, chunkLength, describe, discard, failure, isFailure } from "./transfer.js";

/** @typedef {import("./hub.js").Files} Files */

/**
 * @typedef {object} RemoteFile
 * @property {number} total
 * @property {string | null} version
 * @property {Map<number, Promise<Blob>>} chunks
 * @property {Set<number>} counted chunks that count as loaded
 * @property {import("./cache.js").CachedFile | null} kept
 * @property {boolean} ranged whether the server gives parts of it
 */

/** Chunks fetched ahead of the one that is read. */
const AHEAD = 3;
/** A server that takes longer to say whether a cached file is still the same counts as out of reach. */
const PATIENCE = 5000;

/** @implements {Files} */
export class Remote {
  /** @type {Map<string, Promise<RemoteFile | null>>} */
  opened = new Map();
  /** Whether the server was found out of reach while the cache could do without it. */
  away = false;
  /** @type {ReturnType<import("./cache.js").Cache["model"]> | undefined} */
  model;

  /**
   * @param {string} name
   * @param {string} base
   * @param {import("./transfer.js").TransferOptions & { cache?: import("./cache.js").Cache, pinned?: boolean }} options
   *   `pinned`: whether what the URL names never changes
   */
  constructor(name, base, { cache, pinned = false, ...options }) {
    this.name = name;
    this.base = base;
    this.cache = cache;
    this.pinned = pinned;
    this.signal = options.signal;
    this.transfer = new Transfer(base, options);
  }

  /** @param {string} file */
  async size(file) {
    return (await this.open(file))?.total ?? null;
  }

  /** @param {string} file @param {number} start @param {number} end */
  async read(file, start, end) {
    const opened = await this.open(file);
    if (!opened) throw failure("not-found", `${this.name}: there is no ${file}`, { path: this.base + file });
    end = Math.min(end, opened.total);
    if (start >= end) return new Uint8Array();
    const first = Math.floor(start / CHUNK);
    const last = Math.floor((end - 1) / CHUNK);
    // The first chunk holds the header; nothing else is fetched before somebody who read that wants more.
    const ahead = Math.min(last + (last && AHEAD), Math.ceil(opened.total / CHUNK) - 1);
    const within = (/** @type {number} */ index) => /** @type {const} */ ([Math.max(0, start - index * CHUNK), Math.min(CHUNK, end - index * CHUNK)]);
    for (let index = first; index <= Math.min(first + AHEAD, ahead); index++) this.chunk(file, opened, index);
    if (first === last) return this.part(file, opened, first, ...within(first));
    const bytes = new Uint8Array(end - start);
    for (let index = first; index <= last; index++) {
      this.chunk(file, opened, Math.min(index + AHEAD, ahead));
      bytes.set(await this.part(file, opened, index, ...within(index)), Math.max(0, index * CHUNK - start));
    }
    return bytes;
  }

  /** Lets other tabs delete the model, once what is on its way has been kept. */
  async close() {
    const opened = await Promise.allSettled(this.opened.values());
    const files = opened.flatMap((file) => (file.status === "fulfilled" && file.value ? [file.value] : []));
    await Promise.allSettled(files.flatMap(({ chunks }) => [...chunks.values()]));
    // What can be had again is not kept in memory for the day when the GPU is lost.
    for (const { chunks, kept, ranged } of files) if (ranged && !kept) chunks.clear();
    await (await this.model)?.close().catch(() => {});
  }

  /** @param {string} file */
  open(file) {
    const opened = this.opened.get(file) ?? this.first(file);
    this.opened.set(file, opened);
    return opened;
  }

  /** @param {string} file @returns {Promise<RemoteFile | null>} */
  async first(file) {
    // Names of shards come from a file of the model.
    if (file.split("/").some((part) => ["", ".", ".."].includes(part))) {
      throw failure("not-found", `${this.name}: ${file} is no name inside the model's folder`, { path: this.base + file });
    }
    this.model ??= this.cache?.model(this.name, this.base);
    const kept = (await this.model)?.file(file) ?? null;
    return kept ? this.alone(kept, 0, () => this.resume(file, kept)) : this.begin(file, null);
  }

  /** @param {string} file @param {import("./cache.js").CachedFile} kept @returns {Promise<RemoteFile | null>} */
  async resume(file, kept) {
    const known = await kept.known();
    if (!known) return this.begin(file, kept);
    const now = this.pinned || this.away ? null : await this.ask(file, known.absent);
    if (now && !now.absent) {
      // Where the server names no version, anything may have changed.
      const same = now.version !== null && now.version === known.version && [known.total, null].includes(now.total);
      if (!same) return this.begin(file, kept);
    }
    const absent = now ? now.absent : known.absent;
    await kept.mark(absent);
    if (absent) return null;
    const { total, version } = known;
    const counted = await kept.indices();
    for (const index of counted) this.transfer.report(file, chunkLength(total, index), total);
    return { total, version, chunks: new Map(), counted, kept, ranged: true };
  }

  /**
   * What the server has now; null when it is out of reach.
   * @param {string} file @param {boolean} absent whether it had no such file
   */
  async ask(file, absent) {
    const patience = new AbortController();
    const stop = () => patience.abort();
    const timer = setTimeout(stop, PATIENCE);
    this.signal.addEventListener("abort", stop);
    try {
      const response = await this.transfer.fetch(file, 0, 1, patience.signal);
      const now = describe(response);
      stop();
      // A page instead of a file that was there is that of a hotel's network.
      if (now.absent && response.ok && !absent) throw new Error("a page came");
      return now;
    } catch (error) {
      if (this.signal.aborted) throw failure("aborted", "aborted");
      if (isFailure(error)) throw error;
      this.away = true;
      return null;
    } finally {
      clearTimeout(timer);
      this.signal.removeEventListener("abort", stop);
    }
  }

  /**
   * The first request tells the size and brings the first chunk, which for small files is all.
   * @param {string} file @param {import("./cache.js").CachedFile | null} kept @returns {Promise<RemoteFile | null>}
   */
  begin(file, kept) {
    return this.transfer.retry(file, async () => {
      let response = await this.transfer.fetch(file, 0, CHUNK);
      const { absent, total, version } = describe(response);
      if (absent || total === 0) discard(response);
      if (absent) {
        await kept?.mark(true);
        return null;
      }
      /** @type {Blob[]} */
      let parts = [];
      let size = total ?? 0;
      if (total) {
        parts = [new Blob([await this.transfer.chunk(file, response, 0, total)])];
      } else if (total === null) {
        if (response.status === 206) {
          discard(response);
          response = await this.transfer.fetch(file);
        }
        parts = await this.transfer.whole(file, response);
        size = parts.reduce((sum, part) => sum + part.size, 0);
      }
      await kept?.begin({ total: size, version });
      const chunks = new Map();
      for (const [index, part] of parts.entries()) {
        const chunk = kept ? await kept.put(index, new Uint8Array(await part.arrayBuffer())) : part;
        chunks.set(index, Promise.resolve(chunk));
      }
      return { total: size, version, chunks, counted: new Set(chunks.keys()), kept, ranged: total !== null };
    });
  }

  /** @param {string} file @param {RemoteFile} opened @param {number} index @param {number} start @param {number} end */
  async part(file, opened, index, start, end) {
    const chunk = await this.chunk(file, opened, index);
    try {
      return new Uint8Array(await chunk.slice(start, end).arrayBuffer());
    } catch {
      // It was deleted meanwhile, by a person or by the browser.
      opened.chunks.delete(index);
      return new Uint8Array(await (await this.chunk(file, opened, index)).slice(start, end).arrayBuffer());
    }
  }

  /** @param {string} file @param {RemoteFile} opened @param {number} index @returns {Promise<Blob>} */
  chunk(file, opened, index) {
    let chunk = opened.chunks.get(index);
    if (!chunk) {
      chunk = this.obtain(file, opened, index);
      // Whoever reads the chunk hears of its failure; a chunk ahead may never be read.
      chunk.catch(() => {});
      opened.chunks.set(index, chunk);
    }
    return chunk;
  }

  /** @param {string} file @param {RemoteFile} opened @param {number} index @returns {Promise<Blob>} */
  async obtain(file, opened, index) {
    const { kept, total, counted } = opened;
    if (!kept) return new Blob([await this.download(file, opened, index)]);
    return this.alone(kept, index, async () => {
      const bytes = chunkLength(total, index);
      // Another tab may have brought it while this one waited.
      const found = await kept.get(index, bytes);
      if (found && !counted.has(index)) this.transfer.report(file, bytes, total);
      if (!found && counted.delete(index)) this.transfer.report(file, -bytes, total, true);
      const chunk = found ?? (await kept.put(index, await this.download(file, opened, index)));
      counted.add(index);
      return chunk;
    });
  }

  /** @param {string} file @param {RemoteFile} opened @param {number} index */
  download(file, opened, index) {
    const start = index * CHUNK;
    return this.transfer.retry(file, async () => {
      const response = await this.transfer.fetch(file, start, start + chunkLength(opened.total, index));
      const { total, version } = describe(response);
      if (response.status === 206 && version === opened.version && total === opened.total) {
        return this.transfer.chunk(file, response, start, total);
      }
      discard(response);
      if (this.pinned) await opened.kept?.drop();
      throw failure("integrity", `${this.base}${file} changed while it was downloaded: load the model again`, { file });
    });
  }

  /** @template T @param {import("./cache.js").CachedFile} kept @param {number} index @param {() => Promise<T>} work @returns {Promise<T>} */
  async alone(kept, index, work) {
    try {
      return await kept.lock(index, this.signal, work);
    } catch (error) {
      throw this.signal.aborted ? failure("aborted", "aborted") : error;
    }
  }
}
