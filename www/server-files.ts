/**
 * The files of a model on a server. They come in chunks by Range, several at once, each once; where there is no Range, whole.
 * What a cache holds is not asked for again: the server only says whether its file is still the same. What no cache holds is
 * forgotten when it was read, and fetched again when it is needed again.
 */
import { CHUNK, type Cache, type CachedFile, withoutQuery } from "./cache.js";
import { type Chunk, DiskChunk, Memory, MemoryChunk } from "./chunks.js";
import { aborted, failure, isFailure } from "./error.js";
import { linked, unlessSilent } from "./http.js";
import type { Files } from "./model-files.js";
import { Downloader, type DownloaderOptions, chunkLength, describe, discard } from "./downloader.js";

type ServerFile = {
  total: number;
  version: string | null;
  chunks: Map<number, Promise<Chunk>>;
  /** requests for chunks */
  coming: Set<Promise<unknown>>;
  /** chunks that count as loaded */
  counted: Set<number>;
  kept: CachedFile | null;
  /** whether the server gives parts of it, as far as is known */
  ranged: boolean;
  /** bytes that were not kept when it was opened; all by default */
  missing?: number;
};

/** Chunks fetched ahead of the one that is read. */
const AHEAD = 3;
/** Seconds after which a server that is asked about a cached file counts as out of reach. */
const PATIENCE = 5;

export class ServerFiles implements Files {
  opened: Map<string, Promise<ServerFile | null>> = new Map();
  /** True if the server was out of reach while the cache could do without it. */
  isUnreachable = false;
  model: ReturnType<Cache["model"]> | undefined;
  memory = new Memory();

  declare name: string;
  declare url: string;
  declare cache: Cache | undefined;
  declare pinned: boolean;
  declare only: string | undefined;
  declare listing: Downloader | null;
  declare signal: AbortSignal;
  declare downloader: Downloader;

  /**
   * @param base the folder
   * @param options `pinned`: whether what the URL names never changes; `listing`: where a Hub lists its files; `only`: the GGUF file that
   * is the model
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

  /** The names of its files; none where the server cannot be asked for them. */
  async list(): Promise<string[]> {
    const { listing, only } = this;
    if (!listing) return only ? [only] : [];
    const names = (await (await this.kept())?.names()) ?? [];
    const ask = async (signal: AbortSignal) =>
      (await listing.fetch("", undefined, undefined, signal)).json().catch((error) => {
        // What answers may be no Hub.
        if (error instanceof SyntaxError) return null;
        throw error;
      });
    try {
      const late = (error: unknown) => Promise.reject(this.isUnreachable ? failure("network", "no answer") : error);
      const told = await listing.retry("", () => (names.length ? this.withinPatience(ask).catch(late) : ask(this.signal)));
      if (!Array.isArray(told?.siblings)) return names;
      return told.siblings.map((file: any) => String(file?.rfilename));
    } catch (error) {
      // Without the Hub, what is kept is enough.
      if (error.code !== "network" || !names.length) throw error;
      return names;
    }
  }

  /** Returns the cache of the model. */
  kept() {
    return (this.model ??= this.cache?.model(this.name, this.url));
  }

  /** Bytes of the files that were opened, but for those that were kept before. */
  async missing() {
    let bytes = 0;
    for (const opened of this.opened.values()) {
      const file = await opened;
      bytes += file?.missing ?? file?.total ?? 0;
    }
    return bytes;
  }

  async size(file: string) {
    // Its other parts, where it is split, are asked for; a folder's files are not.
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
    // The first chunk holds the header; nothing else is fetched before somebody who read that wants more.
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

  /** Forgets what was not read, and lets other tabs delete the model, once what is on its way has been kept. */
  async close() {
    const opened = await Promise.allSettled(this.opened.values());
    const files = opened.flatMap((file) => (file.status === "fulfilled" && file.value ? [file.value] : []));
    await Promise.allSettled(files.flatMap(({ chunks }) => [...chunks.values()]));
    // A second read, after the GPU was lost, comes from disk or from the server.
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
    // Names of shards come from a file of the model.
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

  /**
   * Returns what the server has now; null when it is out of reach.
   * @param absent whether it had no such file
   */
  async ask(file: string, absent: boolean) {
    try {
      return await this.withinPatience(async (signal) => {
        const response = await this.downloader.fetch(file, 0, 1, signal);
        const now = describe(response);
        // A page instead of a file that was there is that of a hotel's network.
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

  /** The first request gives the size and brings the first chunk, which for small files is all. */
  begin(file: string, kept: CachedFile | null): Promise<ServerFile | null> {
    let tries = 0;
    return this.downloader.retry(file, async () => {
      // Some servers send parts of a compressed file, which no browser can unpack: once it is asked for as a whole.
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

  /** All chunks of a file of which no parts are to be had. */
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

  /** Fetches such a file again. */
  refill(file: string, opened: ServerFile) {
    const { coming, counted, total, version } = opened;
    opened.ranged = false;
    // What is still on its way counts and is kept when it is here: only then can that be taken back.
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
    if (blob) return new DiskChunk(blob);
    // To forget what cannot be had by part would cost more than it frees.
    return ranged ? this.memory.hold(bytes) : new MemoryChunk(bytes);
  }

  async part(file: string, opened: ServerFile, index: number, start: number, end: number) {
    for (let tries = 1; tries <= 2; tries++) {
      const chunk = this.chunk(file, opened, index);
      const bytes = await (await chunk).read(start, end);
      if (bytes) return bytes;
      // Another reader may have had it fetched again.
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
    // The reader of the chunk gets its failure; a chunk ahead may never be read.
    chunk.catch(() => {});
    chunks.set(index, chunk);
  }

  async obtain(file: string, opened: ServerFile, index: number): Promise<Chunk> {
    const { kept, total, coming, counted } = opened;
    const bytes = chunkLength(total, index);
    const bring = async () => {
      // Another tab may have brought it while this one waited.
      const found = await kept?.get(index, bytes);
      if (found) {
        if (!counted.has(index)) this.downloader.report(file, bytes, total);
        counted.add(index);
        return new DiskChunk(found);
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

  /** A chunk's bytes; null where the server gives no parts of the file. */
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
