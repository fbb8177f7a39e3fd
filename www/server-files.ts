/**
 * The files of a model on a server. Chunks are requested by Range, several at once; without Range, files are downloaded whole. Cached chunks
 * are used if the server's file is unchanged. Chunks without a cache are dropped when they were read, and downloaded again if needed.
 */
import { CHUNK, type Cache, type CachedFile, withoutQuery } from "./cache.js";
import { type Chunk, Memory, MemoryChunk, diskChunk } from "./chunks.js";
import { aborted, failure, isFailure } from "./error.js";
import { linked, unlessSilent } from "./http.js";
import type { Files } from "./model-files.js";
import { Downloader, type DownloaderOptions, chunkLength, describe, discard } from "./downloader.js";

type ServerFile = {
  total: number;
  version: string | null;
  chunks: Map<number, Promise<Chunk>>;
  /** Running requests for chunks. */
  coming: Set<Promise<unknown>>;
  /** Chunks in the reported progress. */
  counted: Set<number>;
  kept: CachedFile | null;
  /** False if the server does not support Range. */
  ranged: boolean;
  /** Bytes that were not cached when the file was opened; undefined: all. */
  missing?: number;
};

/** Number of chunks that are requested ahead. */
const AHEAD = 3;
/** Seconds after which a server that is asked about a cached file counts as out of reach. */
const PATIENCE = 5;

export class ServerFiles implements Files {
  opened: Map<string, Promise<ServerFile | null>> = new Map();
  /** True if the server did not answer, and the cache is used. */
  isUnreachable = false;
  model: ReturnType<Cache["model"]> | undefined;
  memory = new Memory();

  declare name;
  declare url;
  declare cache;
  declare pinned;
  declare only;
  declare listing;
  declare signal;
  declare downloader;

  /**
   * @param base the folder
   * @param options `pinned`: the files never change; `listing`: address of the Hub's list of files; `only`: the model's GGUF file
   */
  constructor(
    name: string,
    base: string,
    { cache, pinned = false, listing, only, ...options }: DownloaderOptions & { cache?: Cache; pinned?: boolean; listing?: string; only?: string },
  ) {
    this.name = name;
    this.url = withoutQuery(base);
    this.cache = cache;
    this.pinned = pinned;
    this.only = only;
    this.listing = listing ? new Downloader(listing, options) : null;
    this.signal = options.signal;
    this.downloader = new Downloader(base, options);
  }

  /** Returns the names of the files; none if the server has no list. */
  async list(): Promise<string[]> {
    const { listing, only } = this;
    if (!listing) return only ? [only] : [];
    const names = (await (await this.kept())?.names()) ?? [];
    const ask = async (signal: AbortSignal) =>
      (await listing.fetch("", undefined, undefined, signal)).json().catch((error) => {
        // The server may not be a Hub.
        if (error instanceof SyntaxError) return null;
        throw error;
      });
    try {
      const late = (error: unknown) => Promise.reject(this.isUnreachable ? failure("network", "no answer") : error);
      const told = await listing.retry("", () => (names.length ? this.withinPatience(ask).catch(late) : ask(this.signal)));
      if (!Array.isArray(told?.siblings)) return names;
      return told.siblings.map((file: any) => String(file?.rfilename));
    } catch (error) {
      if (error.code !== "network" || !names.length) throw error;
      return names;
    }
  }

  kept() {
    return (this.model ??= this.cache?.model(this.name, this.url));
  }

  /** Returns the bytes of opened files that were not cached before. */
  async missing() {
    let bytes = 0;
    for (const opened of this.opened.values()) {
      const file = await opened;
      bytes += file?.missing ?? file?.total ?? 0;
    }
    return bytes;
  }

  async size(file: string) {
    // Other parts of a split GGUF file are requested; other files are not.
    if (this.only && !file.endsWith(".gguf")) return null;
    return (await this.open(file))?.total ?? null;
  }

  async read(file: string, start: number, end: number) {
    const opened = await this.open(file);
    if (!opened) throw failure("not-found", `${this.name}: there is no ${file}`, { path: this.url + file });
    end = Math.min(end, opened.total);
    if (start >= end) return new Uint8Array();
    const first = Math.floor(start / CHUNK);
    const last = Math.floor((end - 1) / CHUNK);
    // After the first chunk, which has the header, nothing is requested ahead.
    const ahead = Math.min(last + (last && AHEAD), Math.ceil(opened.total / CHUNK) - 1);
    const within = (index: number) => [Math.max(0, start - index * CHUNK), Math.min(CHUNK, end - index * CHUNK)] as const;
    for (let index = first; index <= Math.min(first + AHEAD, ahead); index++) this.chunk(file, opened, index);
    if (first === last) return this.part(file, opened, first, ...within(first));
    const bytes = new Uint8Array(end - start);
    for (let index = first; index <= last; index++) {
      this.chunk(file, opened, Math.min(index + AHEAD, ahead));
      bytes.set(await this.part(file, opened, index, ...within(index)), Math.max(0, index * CHUNK - start));
    }
    return bytes;
  }

  /** Waits for running requests, drops unread chunks and unlocks the cached model. */
  async close() {
    const opened = await Promise.allSettled(this.opened.values());
    const files = opened.flatMap((file) => (file.status === "fulfilled" && file.value ? [file.value] : []));
    await Promise.allSettled(files.flatMap(({ chunks }) => [...chunks.values()]));
    // After a lost GPU the files are read again, from disk or from the server.
    for (const { chunks } of files) chunks.clear();
    this.memory.clear();
    await (await this.model)?.close().catch(() => {});
  }

  open(file: string) {
    const opened = this.opened.get(file) ?? this.first(file);
    this.opened.set(file, opened);
    return opened;
  }

  async first(file: string): Promise<ServerFile | null> {
    // Names of shards are read from an untrusted file.
    if (file.split("/").some((part) => ["", ".", ".."].includes(part))) {
      throw failure("not-found", `${this.name}: ${file} is no name inside the model's folder`, { path: this.url + file });
    }
    const kept = (await this.kept())?.file(file) ?? null;
    return kept ? this.locked(kept, 0, () => this.resume(file, kept)) : this.begin(file, null);
  }

  async resume(file: string, kept: CachedFile): Promise<ServerFile | null> {
    const known = await kept.known();
    if (!known) return this.begin(file, kept);
    const now = this.pinned || this.isUnreachable ? null : await this.ask(file, known.absent);
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
    const here = [...counted].map((index) => chunkLength(total, index));
    for (const bytes of here) this.downloader.report(file, bytes, total);
    const missing = here.reduce((missing, bytes) => missing - bytes, total);
    await kept.expect(missing);
    return { total, version, chunks: new Map(), coming: new Set(), counted, kept, ranged: true, missing };
  }

  /** Returns the present facts of a file; null if the server is out of reach. @param absent the server had no such file */
  async ask(file: string, absent: boolean) {
    try {
      return await this.withinPatience(async (signal) => {
        const response = await this.downloader.fetch(file, 0, 1, signal);
        const now = describe(response);
        // The page of a hotel's network, for example.
        if (now.absent && response.ok && !absent) throw new Error("a page came");
        return now;
      });
    } catch (error) {
      if (this.signal.aborted) throw aborted();
      if (isFailure(error)) throw error;
      this.isUnreachable = true;
      return null;
    }
  }

  /** Aborts the request after {@link PATIENCE}: the server is unreachable then. */
  async withinPatience<T>(request: (signal: AbortSignal) => Promise<T>) {
    const control = linked(this.signal);
    try {
      return await unlessSilent(request(control.signal), PATIENCE, () => (this.isUnreachable = true));
    } finally {
      control.abort();
    }
  }

  /** Requests the first chunk, and with it the size. */
  begin(file: string, kept: CachedFile | null): Promise<ServerFile | null> {
    let tries = 0;
    return this.downloader.retry(file, async () => {
      // Some servers send parts of a compressed file, which browsers cannot unpack. So one attempt requests the whole file.
      let response = await this.downloader.fetch(file, 0, ++tries === 3 ? undefined : CHUNK);
      const { absent, total, version } = describe(response);
      if (absent || total === 0) discard(response);
      if (absent) {
        await kept?.mark(true);
        return null;
      }
      const opened: ServerFile = { total: total ?? 0, version, chunks: new Map(), coming: new Set(), counted: new Set(), kept, ranged: total !== null };
      if (opened.ranged) {
        const bytes = total ? await this.downloader.chunk(file, response, 0, total) : null;
        await kept?.begin(version);
        await kept?.expect(opened.total);
        await kept?.describe({ total: opened.total });
        if (!bytes) return opened;
        opened.counted.add(0);
        opened.chunks.set(0, Promise.resolve(await this.keep(opened, 0, bytes)));
        return opened;
      }
      if (response.status === 206) {
        discard(response);
        response = await this.downloader.fetch(file);
      }
      const chunks = await this.whole(file, opened, response);
      for (const [index, chunk] of chunks.entries()) {
        opened.counted.add(index);
        opened.chunks.set(index, Promise.resolve(chunk));
      }
      return opened;
    });
  }

  /** Downloads a file without Range. */
  async whole(file: string, opened: ServerFile, response: Response) {
    const { kept, version } = opened;
    const chunks: Chunk[] = [];
    await kept?.begin(version);
    await kept?.expect(Number(response.headers.get("content-length")));
    opened.total = await this.downloader.whole(file, response, async (bytes) => {
      chunks.push(await this.keep(opened, chunks.length, bytes));
    });
    await kept?.describe({ total: opened.total });
    return chunks;
  }

  /** Downloads a file again, without Range. */
  refill(file: string, opened: ServerFile) {
    const { coming, counted, total, version } = opened;
    opened.ranged = false;
    // The progress of running requests can be taken back only when they have ended.
    const all = Promise.allSettled(coming).then(() => {
      for (const index of counted) this.downloader.report(file, -chunkLength(total, index), total, true);
      counted.clear();
      return this.downloader.retry(file, async () => {
        const response = await this.downloader.fetch(file);
        const now = describe(response);
        const same = !now.absent && now.version === version;
        const chunks = same ? await this.whole(file, opened, response) : discard(response);
        if (!chunks || opened.total !== total) throw this.changed(file);
        return chunks;
      });
    });
    for (let index = 0; index * CHUNK < total; index++) {
      this.set(
        opened,
        index,
        all.then((chunks) => {
          counted.add(index);
          return chunks[index];
        }),
      );
    }
  }

  async keep({ kept, ranged }: ServerFile, index: number, bytes: Uint8Array<ArrayBuffer>): Promise<Chunk> {
    const blob = await kept?.put(index, bytes);
    if (blob) return diskChunk(blob);
    // Without Range a dropped chunk would cost the whole file.
    return ranged ? this.memory.hold(bytes) : new MemoryChunk(bytes);
  }

  async part(file: string, opened: ServerFile, index: number, start: number, end: number) {
    for (let tries = 1; tries <= 2; tries++) {
      const chunk = this.chunk(file, opened, index);
      const bytes = await (await chunk).read(start, end);
      if (bytes) return bytes;
      // Another reader may have requested the chunk again.
      if (opened.chunks.get(index) === chunk) opened.chunks.delete(index);
    }
    throw failure("integrity", `${this.url}${file}: what is kept of it cannot be read: delete it, or load it without a cache`, { file });
  }

  chunk(file: string, opened: ServerFile, index: number): Promise<Chunk> {
    const { chunks, ranged } = opened;
    if (!chunks.has(index)) {
      if (ranged) this.set(opened, index, this.obtain(file, opened, index));
      else this.refill(file, opened);
    }
    return chunks.get(index) as Promise<Chunk>;
  }

  set({ chunks }: ServerFile, index: number, chunk: Promise<Chunk>) {
    // Readers get the error, but a chunk ahead may have no reader.
    chunk.catch(() => {});
    chunks.set(index, chunk);
  }

  async obtain(file: string, opened: ServerFile, index: number): Promise<Chunk> {
    const { kept, total, coming, counted } = opened;
    const bytes = chunkLength(total, index);
    const bring = async () => {
      // Another tab may have downloaded the chunk meanwhile.
      const found = await kept?.get(index, bytes);
      if (found) {
        if (!counted.has(index)) this.downloader.report(file, bytes, total);
        counted.add(index);
        return diskChunk(found);
      }
      if (counted.delete(index)) this.downloader.report(file, -bytes, total, true);
      const downloaded = await this.download(file, opened, index);
      if (!downloaded) return null;
      counted.add(index);
      return this.keep(opened, index, downloaded);
    };
    const brought = kept ? this.locked(kept, index, bring) : bring();
    coming.add(brought);
    const chunk = await brought.finally(() => coming.delete(brought));
    if (chunk) return chunk;
    if (opened.ranged) this.refill(file, opened);
    return this.chunk(file, opened, index);
  }

  /** Downloads a chunk. Returns null if the server does not support Range. */
  download(file: string, opened: ServerFile, index: number) {
    const start = index * CHUNK;
    return this.downloader.retry(file, async () => {
      const response = await this.downloader.fetch(file, start, start + chunkLength(opened.total, index));
      const { absent, total, version } = describe(response);
      if (!absent && version === opened.version) {
        if (response.status === 206 && total === opened.total) return this.downloader.chunk(file, response, start, total);
        if (response.status === 200) {
          discard(response);
          return null;
        }
      }
      discard(response);
      if (this.pinned) await opened.kept?.drop();
      throw this.changed(file);
    });
  }

  changed(file: string) {
    return failure("integrity", `${this.url}${file} changed while it was downloaded: load the model again`, { file });
  }

  async locked<T>(kept: CachedFile, index: number, work: () => Promise<T>): Promise<T> {
    try {
      return await kept.lock(index, this.signal, work);
    } catch (error) {
      throw this.signal.aborted ? aborted() : error;
    }
  }
}
