/**
 * Downloads, kept in the browser's private file system (OPFS): the second load downloads nothing, and a cut costs
 * a chunk. `foretoken/<hash of the base URL>/<file>/` holds `meta` and the chunks `<index>-<tag>`, each sealed.
 *
 * Web Locks keep tabs apart: a shared lock on a model while it is loaded, and a lock on each chunk while it is fetched.
 */
import { META, SEAL, entries, keyOf, openRoot, readFile, readMeta, removeFrom, unseal, write } from "./opfs.js";

/** The last known facts of the server about a file. */
type Meta = {
  /** as the user named it */
  model: string;
  /** what the file's name was added to, without its query */
  url: string;
  /** bytes */
  total: number;
  /** the server's name for these bytes */
  version: string | null;
  /** whether the server has no such file */
  absent: boolean;
  /** which chunks belong to this version */
  tag: string;
};

/** Bytes per chunk: large enough to amortise a round trip, small enough to repeat after a cut. */
export const CHUNK = 8 << 20;
export const ROOT = "foretoken";

/** The cache as one load sees it; after the first failure that load keeps nothing more. */
export class Cache {
  failed = false;
  /** Bytes that are still to be kept. */
  pending = 0;
  #warned = false;

  declare onWarning: (text: string) => void;

  /** @param onWarning gets the reason why something is not kept, at most once */
  constructor(onWarning: (text: string) => void) {
    this.onWarning = onWarning;
  }

  /** A model, locked until its `close()`; null where the browser keeps nothing. */
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
        // A worker killed just before this one began still held its files then.
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

  /**
   * Says beforehand when there is no room for what is about to come.
   * @param bytes that are to be kept, in addition to the others
   */
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

  /** @param room bytes */
  #lackSpace(room: number) {
    // Browsers may name far more than they give; then the numbers would only confuse.
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
  /** Bytes that are still to be kept. */
  #pending = 0;

  declare cache: Cache;
  declare root: FileSystemDirectoryHandle;
  declare path: string[];
  declare from: { model: string; url: string };

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

  /** Does the work while no other tab does the same. */
  lock<T>(index: number, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    return navigator.locks.request(`${lockName(this.path.join("/"))}/${index}`, { signal }, work);
  }

  /** Known facts about the file; null without any. */
  async known() {
    this.meta = await this.folder().then(readMeta, () => null);
    return this.meta;
  }

  /** @param bytes of the file that are about to come */
  async expect(bytes: number) {
    const more = bytes - this.#pending;
    this.#pending = bytes;
    await this.cache.expect(more);
  }

  /** Begins a version of the file; chunks of another go. None counts before its length is written down. */
  async begin(version: string | null) {
    await this.drop();
    this.meta = { ...this.from, total: 0, version, absent: false, tag: crypto.randomUUID().slice(0, 8) };
  }

  /** Forgets the file. */
  async drop() {
    const folder = await this.root.getDirectoryHandle(this.path[0]).catch(() => null);
    if (folder) await removeFrom(folder, this.path[1]);
  }

  /** Remembers whether the server has the file; what is here of it stays. */
  async mark(absent: boolean) {
    if (this.meta?.absent === absent) return;
    // A model of which nothing is there leaves nothing here.
    if (!(await this.root.getDirectoryHandle(this.path[0]).catch(() => null))) return;
    const meta = this.meta ?? { ...this.from, total: 0, version: null, tag: "none" };
    await this.describe({ ...meta, absent });
  }

  /** Writes down what is known of the file. */
  async describe(more: Partial<Meta>) {
    const meta = (this.meta = { ...(this.meta as Meta), ...more });
    await this.#keep(META, new TextEncoder().encode(JSON.stringify(meta)));
  }

  /** Which chunks seem to be here. */
  async indices(): Promise<Set<number>> {
    const end = `-${this.meta?.tag}`;
    const names = (await this.folder().then(entries, () => [])).map(([name]) => name);
    return new Set(names.filter((name) => name.endsWith(end)).map((name) => Number.parseInt(name, 10)));
  }

  /** A chunk, if every bit of it is as it was written; it stays on disk. */
  async get(index: number, length: number): Promise<Blob | null> {
    try {
      const file = await readFile(await this.folder(), `${index}-${this.meta?.tag}`);
      return file.size === length + SEAL && (await unseal(file)) ? file.slice(0, length) : null;
    } catch {
      return null;
    }
  }

  /** Keeps a chunk; null where that cannot be. */
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

/** Removes what a killed worker left half written, and what cannot be used. Returns true if all of it is gone. */
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

/** Bytes that the browser says it could still keep. */
async function estimateRoom() {
  const { quota = Infinity, usage = 0 } = (await navigator.storage.estimate?.().catch(() => null)) ?? {};
  return Math.max(0, quota - usage);
}

function megabytes(bytes: number) {
  return `${Math.ceil(bytes / 1e6)} MB`;
}

/** Returns true if a model is named by its address, and not as on the Hub. */
export const isAddress = (model: string) => /^(\.{0,2}\/|[a-z][a-z0-9+.-]*:)/i.test(model);

/**
 * An address as it may be kept and shown. Queries hold signatures, which are secret, and new each time although the files
 * are the same.
 */
export function withoutQuery(url: string) {
  return url.split(/[?#]/, 1)[0];
}

export function lockName(what: string) {
  return `${ROOT}/${what}`;
}
