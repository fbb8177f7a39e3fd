/**
 * Downloaded models in the browser's private file system (OPFS): `foretoken/<hash of the base URL>/<file>/` has `meta` and the chunks
 * `<index>-<tag>`, each sealed. Web Locks: a shared lock on a model while it is loaded, and a lock on each chunk while it is downloaded.
 */
import { META, SEAL, entries, keyOf, openRoot, readFile, readMeta, removeFrom, unseal, write } from "./opfs.js";

/** The latest facts from the server about a file. */
type Meta = {
  model: string;
  /** Address of the folder, without a query. */
  url: string;
  total: number;
  /** ETag or modification time. */
  version: string | null;
  absent: boolean;
  /** Suffix of the chunks of this version. */
  tag: string;
};

/** Bytes per chunk: large compared to a round trip, and small enough to repeat. */
export const CHUNK = 8 << 20;
export const ROOT = "foretoken";

/** The cache of one load. After the first failure nothing more is stored. */
export class Cache {
  failed = false;
  /** Bytes that are not stored yet. */
  pending = 0;
  #warned = false;

  declare onWarning;

  /** @param onWarning gets the reason why something is not stored, at most once */
  constructor(onWarning: (text: string) => void) {
    this.onWarning = onWarning;
  }

  /** Locks a model until its `close()`. Null if the browser stores nothing. */
  async model(name: string, url: string) {
    try {
      const root = await openRoot(ROOT, true);
      const key = await keyOf(url);
      const clean = () => navigator.locks.request(lockName(key), { ifAvailable: true }, (lock) => !!lock && sweep(root, key));
      const wasClean = await clean();
      let release: () => void = () => {};
      let released: Promise<void> = Promise.resolve();
      await new Promise<void>((locked, failed) => {
        released = navigator.locks.request(lockName(key), { mode: "shared" }, () => {
          locked();
          return new Promise<void>((resolve) => (release = resolve));
        });
        released.catch(failed);
      });
      const close = async () => {
        release();
        await released;
        // A worker that was killed just before still held its files.
        if (!wasClean) await clean();
      };
      const file = (file: string) => new CachedFile(this, root, [key, encodeURIComponent(file)], { model: name, url });
      const names = async () => {
        const folder = await root.getDirectoryHandle(key).catch(() => null);
        const metas = (folder ? await entries(folder) : []).map(async ([name, inside]) => ({ name, meta: await readMeta(inside) }));
        return (await Promise.all(metas)).filter(({ meta }) => meta && !meta.absent).map(({ name }) => decodeURIComponent(name));
      };
      return { close, file, names };
    } catch (error) {
      await this.fail(error);
      return null;
    }
  }

  /** Warns if there is no room for this many more bytes. */
  async expect(bytes: number) {
    this.pending += bytes;
    const room = await estimateRoom();
    if (room < this.pending) this.#lackSpace(room);
  }

  async fail(error: unknown) {
    if (this.failed) return;
    this.failed = true;
    const { name } = error as Error;
    if (name === "QuotaExceededError") this.#lackSpace(await estimateRoom());
    else {
      const reason = globalThis.isSecureContext === false ? "only for secure pages, https or localhost" : name;
      this.#warn(`cache: the browser keeps no files for this page (${reason}): the model will be downloaded again next time`);
    }
  }

  #lackSpace(room: number) {
    // Browsers may report more room than they have.
    const numbers = room < this.pending ? ` (${megabytes(this.pending)} are needed, ${megabytes(room)} are free)` : "";
    this.#warn(
      `quota: the browser has not enough space to keep the model${numbers}: what does not fit will be downloaded again next ` +
        "time, unless you free some space or delete cached models",
    );
  }

  #warn(text: string) {
    if (!this.#warned) this.onWarning(text);
    this.#warned = true;
  }
}

/** One file of a model. */
export class CachedFile {
  meta: Meta | null = null;
  #pending = 0;

  declare cache;
  declare root;
  declare path;
  declare from;

  constructor(cache: Cache, root: FileSystemDirectoryHandle, path: string[], from: { model: string; url: string }) {
    this.cache = cache;
    this.root = root;
    this.path = path;
    this.from = from;
  }

  async folder(create: boolean = false): Promise<FileSystemDirectoryHandle> {
    let folder = this.root;
    for (const name of this.path) folder = await folder.getDirectoryHandle(name, { create });
    return folder;
  }

  /** Works on a chunk while no other tab does. */
  lock<T>(index: number, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    return navigator.locks.request(`${lockName(this.path.join("/"))}/${index}`, { signal }, work);
  }

  /** Reads the stored facts. */
  async known() {
    this.meta = await this.folder().then(readMeta, () => null);
    return this.meta;
  }

  /** @param bytes of the file that will be stored */
  async expect(bytes: number) {
    const more = bytes - this.#pending;
    this.#pending = bytes;
    await this.cache.expect(more);
  }

  /** Begins a version of the file and removes others. Chunks count as soon as the length is stored. */
  async begin(version: string | null) {
    await this.drop();
    this.meta = { ...this.from, total: 0, version, absent: false, tag: crypto.randomUUID().slice(0, 8) };
  }

  async drop() {
    const folder = await this.root.getDirectoryHandle(this.path[0]).catch(() => null);
    if (folder) await removeFrom(folder, this.path[1]);
  }

  /** Stores whether the server has the file. */
  async mark(absent: boolean) {
    if (this.meta?.absent === absent) return;
    // Nothing is stored for a model without files.
    if (!(await this.root.getDirectoryHandle(this.path[0]).catch(() => null))) return;
    const meta = this.meta ?? { ...this.from, total: 0, version: null, tag: "none" };
    await this.describe({ ...meta, absent });
  }

  /** Stores facts. */
  async describe(more: Partial<Meta>) {
    const meta = (this.meta = { ...(this.meta as Meta), ...more });
    await this.#keep(META, new TextEncoder().encode(JSON.stringify(meta)));
  }

  /** Returns the chunks that seem to be stored. */
  async indices(): Promise<Set<number>> {
    const end = `-${this.meta?.tag}`;
    const names = (await this.folder().then(entries, () => [])).map(([name]) => name);
    return new Set(names.filter((name) => name.endsWith(end)).map((name) => Number.parseInt(name, 10)));
  }

  /** Returns a chunk on disk, if its hash matches. */
  async get(index: number, length: number): Promise<Blob | null> {
    try {
      const file = await readFile(await this.folder(), `${index}-${this.meta?.tag}`);
      return file.size === length + SEAL && (await unseal(file)) ? file.slice(0, length) : null;
    } catch {
      return null;
    }
  }

  /** Stores a chunk. Returns null if that fails. */
  async put(index: number, bytes: Uint8Array<ArrayBuffer>): Promise<Blob | null> {
    const file = await this.#keep(`${index}-${this.meta?.tag}`, bytes);
    if (file) {
      this.#pending -= bytes.length;
      this.cache.pending -= bytes.length;
    }
    return file?.slice(0, bytes.length) ?? null;
  }

  async #keep(name: string, bytes: Uint8Array<ArrayBuffer>) {
    if (this.cache.failed) return null;
    try {
      const folder = await this.folder(true);
      await write(folder, name, bytes);
      return await readFile(folder, name);
    } catch (error) {
      await this.cache.fail(error);
      return null;
    }
  }
}

/** Removes incomplete and unusable files. Returns true if all of them are gone. */
async function sweep(root: FileSystemDirectoryHandle, key: string) {
  const folder = await root.getDirectoryHandle(key).catch(() => null);
  if (!folder) return true;
  let gone = true;
  for (const [file, inside] of await entries(folder)) {
    const meta = await readMeta(inside);
    const useless = meta && (await entries(inside)).filter(([name]) => name !== META && !name.endsWith(`-${meta.tag}`));
    for (const [name] of useless ?? []) gone = (await removeFrom(inside, name)) && gone;
    if (!meta) gone = (await removeFrom(folder, file)) && gone;
  }
  return gone;
}

/** Returns the bytes that the browser could still store, as far as it reports. */
async function estimateRoom() {
  const { quota = Infinity, usage = 0 } = (await navigator.storage.estimate?.().catch(() => null)) ?? {};
  return Math.max(0, quota - usage);
}

function megabytes(bytes: number) {
  return `${Math.ceil(bytes / 1e6)} MB`;
}

/** Returns true for an address, false for a name of the Hub. */
export const isAddress = (model: string) => /^(\.{0,2}\/|[a-z][a-z0-9+.-]*:)/i.test(model);

/** Returns an address without its query, which may have a secret signature that is new each time. */
export function withoutQuery(url: string) {
  return url.split(/[?#]/, 1)[0];
}

export function lockName(what: string) {
  return `${ROOT}/${what}`;
}
