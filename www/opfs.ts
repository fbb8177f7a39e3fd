/** Sealed files in the browser's private file system (OPFS): they end with the SHA-256 of their content. */

export const SEAL = 32;

/** Writes a sealed file, which gets its name when it is complete. */
export async function write(folder: FileSystemDirectoryHandle, name: string, bytes: Uint8Array<ArrayBuffer>) {
  const part = `${name}.${crypto.randomUUID().slice(0, 8)}.part`;
  const handle: any = await folder.getFileHandle(part, { create: true });
  try {
    const pieces = [bytes, await sha256(bytes)];
    if (handle.createSyncAccessHandle) await fill(handle, pieces);
    else {
      // In a shared worker.
      const stream = await handle.createWritable();
      await stream.write(new Blob(pieces));
      await stream.close();
    }
    // WebKit requires the folder.
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
      // If the disk is full, browsers may not throw, but return another number.
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

/** Returns a name for a folder: the text itself may be too long or forbidden. */
export async function keyOf(text: string) {
  return hex(await sha256(new TextEncoder().encode(text))).slice(0, 32);
}

/** File that describes its folder. */
export const META = "meta";

export function writeMeta(folder: FileSystemDirectoryHandle, value: unknown) {
  return write(folder, META, new TextEncoder().encode(JSON.stringify(value)));
}

/** Returns null if the file is missing or damaged. */
export async function readMeta(folder: FileSystemDirectoryHandle): Promise<any> {
  try {
    const bytes = await unseal(await readFile(folder, META));
    return bytes && JSON.parse(new TextDecoder().decode(bytes));
  } catch {
    return null;
  }
}

/** Returns the content of a sealed file; null if it has changed. */
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

/** Removes a file or folder. Returns false if it is open elsewhere. */
export function removeFrom(folder: FileSystemDirectoryHandle, name: string) {
  return folder.removeEntry(name, { recursive: true }).then(
    () => true,
    () => false,
  );
}

export async function readFile(folder: FileSystemDirectoryHandle, name: string) {
  return (await folder.getFileHandle(name)).getFile();
}
