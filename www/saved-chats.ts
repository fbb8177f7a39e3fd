/**
 * Saved conversations in the browser's private file system (OPFS): `foretoken-chats/<hash of the name>/` has `meta` with the messages and
 * the cached tokens, and their keys and values, `<layer>-<tag>`. All files are sealed.
 */
import { failure, isFailure } from "./error.js";
import { META, entries, keyOf, openRoot, readFile, readMeta, removeFrom, unseal, write, writeMeta } from "./opfs.js";
import type { Message } from "./api.js";

type Saved = { messages: Message[]; options: object; tokens: number[]; tag: string };

const ROOT = "foretoken-chats";

export const locked = <T>(key: string, mode: LockMode, work: () => Promise<T>): Promise<T> => navigator.locks.request(`${ROOT}/${key}`, { mode }, work);

/** Works in the folder of all conversations. Rejects with `storage` if the browser refuses. */
export async function inChatsFolder<T>(work: (root: FileSystemDirectoryHandle) => Promise<T>) {
  try {
    return await work(await openRoot(ROOT, true));
  } catch (error) {
    if (isFailure(error) || error instanceof WebAssembly.RuntimeError) throw error;
    const { name, message } = error;
    const full = name === "QuotaExceededError" ? "the browser has no space left for this page" : `${name}: ${message}`;
    const reason = globalThis.isSecureContext === false ? "this needs a secure page, https or localhost" : full;
    throw failure("storage", `conversations cannot be kept here: ${reason}`, { reason });
  }
}

/** Works on a conversation under its lock. */
export const withChat = <T>(name: string, mode: LockMode, work: (root: FileSystemDirectoryHandle, key: string) => Promise<T>) =>
  inChatsFolder(async (root) => {
    // JSON distinguishes lone surrogates.
    const key = await keyOf(JSON.stringify(name));
    return locked(key, mode, () => work(root, key));
  });

/** Saves a conversation. An earlier one of this name is replaced at the end. @param layers writes keys and values and returns the tokens */
export const save = (
  name: string,
  said: Omit<Saved, "tokens" | "tag">,
  layers: (write: (layer: number, bytes: Uint8Array<ArrayBuffer>) => Promise<void>) => Promise<number[]>,
) =>
  withChat(name, "exclusive", async (root, key) => {
    const folder = await root.getDirectoryHandle(key, { create: true });
    const tag = crypto.randomUUID().slice(0, 8);
    try {
      const tokens = await layers((layer, bytes) => write(folder, `${layer}-${tag}`, bytes));
      await writeMeta(folder, { ...said, name, tokens, tag });
      return tokens.length;
    } finally {
      const end = `-${(await readMeta(folder))?.tag}`;
      for (const [file] of await entries(folder)) if (file !== META && !file.endsWith(end)) await removeFrom(folder, file);
    }
  });

/** Restores a conversation. Rejects with `not-found`. @param restore reads keys and values */
export const restore = (name: string, restore: (saved: Saved, read: (layer: number) => Promise<Uint8Array>) => Promise<boolean>) =>
  withChat(name, "shared", async (root, key) => {
    const folder = await root.getDirectoryHandle(key).catch(() => null);
    const saved = folder && ((await readMeta(folder)) as Saved | null);
    if (!saved)
      throw failure("not-found", `there is no saved conversation with the name ${name}`, { path: name, reason: "it was not saved here, or was deleted" });
    const read = async (layer: number) => (await unseal(await readFile(folder, `${layer}-${saved.tag}`))) ?? new Uint8Array();
    // Without keys and values the messages are read again.
    const isCached = saved.tokens.length > 0 && (await restore(saved, read).catch(() => false));
    const { messages, options, tokens } = saved;
    return { messages, options, cached: isCached ? tokens.length : 0 };
  });
