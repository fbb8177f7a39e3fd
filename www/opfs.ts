/**
 * Files in the browser's private file system (OPFS) that end with the SHA-256 of what stands before it: none is trusted as it
 * lies there, not after a crash, not after a full disk.
 */

/** Bytes of the hash. */
export const SEAL = 32;

/** Writes a sealed file, which appears under its name only when it is whole. */
export async function write(folder: FileSystemDirectoryHandle, name: string, bytes: Uint8Array<ArrayBuffer>) {
  const part = `${name}.${crypto.randomUUID().slice(0, 8)}.part`;
  /** the types of these exist for workers only, or not yet */
  const handle: any = await folder.getFileHandle(part, { create: true });
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

async function fill(handle: any, pieces: Uint8Array[]) {
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

export async function openRoot(name: string, create: boolean): Promise<FileSystemDirectoryHandle> {
  return (await navigator.storage.getDirectory()).getDirectoryHandle(name, { create });
}

/** Returns the name of a folder: any text may be too long for one, or forbidden. */
export async function keyOf(text: string) {
  return hex(await sha256(new TextEncoder().encode(text))).slice(0, 32);
}

/** The file in each folder that says what is there. */
export const META = "meta";

export function writeMeta(folder: FileSystemDirectoryHandle, value: unknown) {
  return write(folder, META, new TextEncoder().encode(JSON.stringify(value)));
}

/** Returns null if there is none, or if it is damaged. */
export async function readMeta(folder: FileSystemDirectoryHandle): Promise<any> {
  try {
    const bytes = await unseal(await readFile(folder, META));
    return bytes && JSON.parse(new TextDecoder().decode(bytes));
  } catch {
    return null;
  }
}

/** Returns what was sealed; null if a bit of it has changed. */
export async function unseal(file: File) {
  const bytes = new Uint8Array(await file.arrayBuffer());
  const content = bytes.subarray(0, Math.max(0, bytes.length - SEAL));
  return hex(await sha256(content)) === hex(bytes.subarray(content.length)) ? content : null;
}

export async function sha256(bytes: Uint8Array<ArrayBuffer>) {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
}

export function hex(bytes: Uint8Array) {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

export async function entries(folder: any): Promise<[string, any][]> {
  const all = [];
  for await (const entry of folder.entries()) all.push(entry);
  return all;
}

/** Returns true if it is gone; what is open elsewhere stays. */
export function removeFrom(folder: FileSystemDirectoryHandle, name: string) {
  return folder.removeEntry(name, { recursive: true }).then(
    () => true,
    () => false,
  );
}

export async function readFile(folder: FileSystemDirectoryHandle, name: string) {
  return (await folder.getFileHandle(name)).getFile();
}
