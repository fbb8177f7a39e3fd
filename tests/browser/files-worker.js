// Reads models as the engine's worker does, without the engine, and looks into what is kept of them.
import { Cache } from "/cache.js";
import { openFiles } from "/model-files.js";
import { listModels as list, removeModel as remove } from "/storage.js";
import { patience } from "/downloader.js";

const control = new AbortController();
const warnings = [];
/** Milliseconds of the timers that a `skipping` clock did not wait for. */
const skipped = [];

/** The files of a model, as `read` and `pass` get them. */
function open({ model, cache = true, ...hub }, onProgress = () => {}) {
  return openFiles(model, {
    ...hub,
    base: self.location.origin,
    role: "target",
    signal: control.signal,
    cache: cache ? new Cache((text) => warnings.push(text)) : undefined,
    onProgress,
  });
}

const jobs = {
  /**
   * Reads files to the end, in pieces of `step` bytes; the answer holds the SHA-256 of each, or null for what is not there.
   * Does nothing more once `holdAt` bytes have come, so that it can be killed before it ends.
   */
  async read({ files, step = 5_000_000, offline = false, sizesFirst = false, holdAt = Infinity, ...from }) {
    const progress = [];
    const source = open(from, (at) => {
      progress.push(at);
      postMessage({ loaded: at.loaded });
      while (at.loaded >= holdAt);
      if (offline && progress.length === 1) connect(false);
    });
    const hashes = {};
    try {
      if (sizesFirst) for (const file of files) await source.size(file);
      for (const file of files) {
        const size = await source.size(file);
        hashes[file] = null;
        if (size === null) continue;
        const bytes = new Uint8Array(size);
        for (let at = 0; at < size; at += step) bytes.set(await source.read(file, at, Math.min(at + step, size)), at);
        hashes[file] = await sha256(bytes);
      }
    } finally {
      await source.close();
    }
    return { hashes, progress, warnings, skipped };
  },

  /** Reads pieces of a file, `[start, end]` each, and lets go of them; the answer holds their SHA-256. `again`: once more when closed. */
  async pass({ file, pieces, again = [], ...from }) {
    const source = open(from);
    const hashes = [];
    try {
      for (const [start, end] of pieces) hashes.push(await sha256(await source.read(file, start, end)));
    } finally {
      await source.close();
    }
    for (const [start, end] of again) hashes.push(await sha256(await source.read(file, start, end)));
    return { hashes, warnings };
  },

  /** Duration of retries that were not shortened. */
  patience: async () => patience,

  /** The names of a model's files. */
  async names(from) {
    const source = open(from);
    try {
      return await source.list();
    } finally {
      await source.close();
    }
  },

  list,
  remove: ({ model }) => remove(model),

  /** The paths of everything in the private file system. */
  tree: async () => (await walk()).map(({ path }) => path),

  /** Damages every kept file whose path matches: `flip` a byte, `cut` off a half, or `drop` it. */
  async damage({ path: pattern, how }) {
    const found = (await walk()).filter(({ path }) => new RegExp(pattern).test(path));
    for (const { handle, folder } of found) {
      if (how === "drop") {
        await folder.removeEntry(handle.name);
        continue;
      }
      const bytes = new Uint8Array(await (await handle.getFile()).arrayBuffer());
      const at = bytes.length >> 1;
      if (how === "flip") bytes[at] ^= 4;
      const writable = await handle.createWritable();
      await writable.write(how === "cut" ? bytes.slice(0, at) : bytes);
      await writable.close();
    }
    return found.length;
  },
};

async function walk(folder, path = "") {
  folder ??= await navigator.storage.getDirectory();
  const all = [];
  for await (const [name, handle] of folder.entries()) {
    if (handle.kind === "directory") all.push(...(await walk(handle, `${path}/${name}`)));
    else all.push({ path: `${path}/${name}`, handle, folder });
  }
  return all;
}

async function sha256(bytes) {
  return Array.from(new Uint8Array(await crypto.subtle.digest("SHA-256", bytes)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** The connection goes, or comes back. @param {boolean} onLine */
function connect(onLine) {
  Object.defineProperty(navigator, "onLine", { value: onLine, configurable: true });
  dispatchEvent(new Event(onLine ? "online" : "offline"));
}

/** A clock that does not wait, but for silence and for what takes no time. */
function skip() {
  const wait = self.setTimeout;
  self.setTimeout = (work, milliseconds) => {
    if (!(milliseconds > 0) || milliseconds === patience.silence) return wait(work, milliseconds);
    skipped.push(milliseconds);
    return wait(work, 0);
  };
}

/**
 * WebKitGTK can do everything here but open a file for synchronous access: what that needs of the system, only Apple's ports
 * have. So there the bytes go another way, and the rest is WebKit's own: folders, `move`, locks, reading.
 */
function writeOtherwise() {
  const { prototype } = FileSystemFileHandle;
  const { move } = prototype;
  const written = new WeakMap();
  prototype.createSyncAccessHandle = async function () {
    const pieces = [];
    return {
      truncate() {},
      write: (bytes, { at }) => pieces.push({ type: "write", position: at, data: bytes.slice() }) && bytes.length,
      flush() {},
      close: () =>
        written.set(
          this,
          (async () => {
            const writable = await this.createWritable();
            for (const piece of pieces) await writable.write(piece);
            await writable.close();
          })(),
        ),
    };
  };
  prototype.move = async function (...to) {
    await written.get(this);
    return move.apply(this, to);
  };
}

globalThis.onmessage = async ({ data: { job, abort, online, onLine, forbid, estimate, clock, synchronous = true, patience: less = {}, ...args } }) => {
  if (abort) return control.abort();
  if (online) return connect(true);
  if (forbid) StorageManager.prototype.getDirectory = () => Promise.reject(new DOMException("not here", "SecurityError"));
  if (estimate) StorageManager.prototype.estimate = async () => estimate;
  if (onLine === false) connect(false);
  if (clock) skip();
  if (!synchronous) writeOtherwise();
  // Three tries, one after the other, unless a test wants to see more.
  if (!clock && job !== "patience") Object.assign(patience, { pauses: [50, 50] }, less);
  try {
    postMessage({ result: await jobs[job](args) });
  } catch (error) {
    postMessage({ error: { code: error.code ?? error.name, message: error.message, detail: error.detail, skipped } });
  }
};
