/**
 * Files in the browser's private file system (OPFS) that end with the SHA-256 of what stands before it: none is trusted as it
 * lies there, not after a crash, not after a full disk.
 */

/** Bytes of the hash. */
export const SEAL = 32;

/**
 * Writes a sealed file, which appears under its name only when it is whole.
 * @param {FileSystemDirectoryHandle} folder @param {string} name @param {Uint8Array<ArrayBuffer>} bytes
 */
export async function write(folder, name, bytes) {
  const part = `${name}.${crypto.randomUUID().slice(0, 8)}.part`;
  /** @type {any} the types of these are a worker's, or nobody's yet */
  const handle = await folder.getFileHandle(part, { create: true });
  try {
    const pieces = [bytes, await sha256(bytes)];
    if (handle.createSyncAccessHandle) await fill(handle, pieces);
    else {
      // A worker that pages share.
      const stream = await handle.createWritable();
      await stream.write(new Blob(pieces));
      await stream.close();
    }
    // The name alone is enough for others, but not for WebKit.
    await handle.move(folder, name);
  } catch (error) {
    await removeFrom(folder, part);
    throw error;
  }
}

/** @param {any} handle @param {Uint8Array[]} pieces */
async function fill(handle, pieces) {
  const access = await handle.createSyncAccessHandle();
  try {
    access.truncate(0);
    let at = 0;
    for (const piece of pieces) {
      // A full disk may throw nothing, and give back a number that has nothing to do with what was written.
      if (access.write(piece, { at }) !== piece.length) throw new DOMException("a write came up short", "QuotaExceededError");
      at += piece.length;
    }
    access.flush();
  } finally {
    access.close();
  }
}

/** @param {string} name @param {boolean} create @returns {Promise<FileSystemDirectoryHandle>} */
export async function openRoot(name, create) {
  return (await navigator.storage.getDirectory()).getDirectoryHandle(name, { create });
}

/** Returns the name of a folder: any text may be too long for one, or forbidden. @param {string} text */
export async function keyOf(text) {
  return hex(await sha256(new TextEncoder().encode(text))).slice(0, 32);
}

/** The file in each folder that says what is there. */
export const META = "meta";

/** @param {FileSystemDirectoryHandle} folder @param {unknown} value */
export function writeMeta(folder, value) {
  return write(folder, META, new TextEncoder().encode(JSON.stringify(value)));
}

/** Returns null if there is none, or if it is damaged. @param {FileSystemDirectoryHandle} folder @returns {Promise<any>} */
export async function readMeta(folder) {
  try {
    const bytes = await unseal(await readFile(folder, META));
    return bytes && JSON.parse(new TextDecoder().decode(bytes));
  } catch {
    return null;
  }
}

/** What was sealed; null when a bit of it is not as it was. @param {File} file */
export async function unseal(file) {
  const bytes = new Uint8Array(await file.arrayBuffer());
  const content = bytes.subarray(0, Math.max(0, bytes.length - SEAL));
  return hex(await sha256(content)) === hex(bytes.subarray(content.length)) ? content : null;
}

/** @param {Uint8Array<ArrayBuffer>} bytes */
export async function sha256(bytes) {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
}

/** @param {Uint8Array} bytes */
export function hex(bytes) {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** @param {any} folder @returns {Promise<[string, any][]>} */
export async function entries(folder) {
  const all = [];
  for await (const entry of folder.entries()) all.push(entry);
  return all;
}

/** Whether it is gone; what is open elsewhere stays. @param {FileSystemDirectoryHandle} folder @param {string} name */
export function removeFrom(folder, name) {
  return folder.removeEntry(name, { recursive: true }).then(
    () => true,
    () => false,
  );
}

/** @param {FileSystemDirectoryHandle} folder @param {string} name */
export async function readFile(folder, name) {
  return (await folder.getFileHandle(name)).getFile();
}
