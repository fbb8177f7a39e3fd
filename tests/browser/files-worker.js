// Reads models as the engine's worker does, without the engine, and looks into what is kept of them.
import { Cache } from "/cache.js";
import { openFiles } from "/hub.js";
import { patience } from "/transfer.js";

const control = new AbortController();

const jobs = {
  /** Reads files to the end, in pieces of `step` bytes; the answer holds the SHA-256 of each, or null for what is not there. */
  async read({ model, files, step = 5_000_000, cache = true, silence = patience.silence, ...hub }) {
    patience.silence = silence;
    const progress = [];
    const warnings = [];
    const source = openFiles(model, {
      ...hub,
      base: self.location.origin,
      role: "target",
      signal: control.signal,
      cache: cache ? new Cache((text) => warnings.push(text)) : undefined,
      onProgress: (at) => {
        progress.push(at);
        if (progress.length === 1) postMessage({ begun: true });
      },
    });
    const hashes = {};
    try {
      for (const file of files) {
        const size = await source.size(file);
        hashes[file] = null;
        if (size === null) continue;
        const bytes = new Uint8Array(size);
        for (let at = 0; at < size; at += step) bytes.set(await source.read(file, at, Math.min(at + step, size)), at);
        hashes[file] = hex(await crypto.subtle.digest("SHA-256", bytes));
      }
    } finally {
      await source.close();
    }
    return { hashes, progress, warnings };
  },

  /** The paths of everything in the private file system. */
  tree: async () => (await walk()).map(({ path }) => path),

  /** Damages every kept file whose path ends like this: `flip` a byte, `cut` off a half, or `drop` it. */
  async damage({ end, how }) {
    const found = (await walk()).filter(({ path }) => end.test(path));
    for (const { handle, folder } of found) {
      if (how === "drop") {
        await folder.removeEntry(handle.name);
        continue;
      }
      const access = await handle.createSyncAccessHandle();
      const at = access.getSize() >> 1;
      if (how === "cut") access.truncate(at);
      else {
        const byte = new Uint8Array(1);
        access.read(byte, { at });
        access.write(byte.map((bits) => bits ^ 4), { at });
      }
      access.close();
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

function hex(buffer) {
  return Array.from(new Uint8Array(buffer), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

onmessage = async ({ data: { job, abort, forbid, ...args } }) => {
  if (abort) return control.abort();
  if (forbid) navigator.storage.getDirectory = () => Promise.reject(new DOMException("not here", "SecurityError"));
  try {
    postMessage({ result: await jobs[job](args) });
  } catch (error) {
    postMessage({ error: { code: error.code ?? error.name, message: error.message } });
  }
};
