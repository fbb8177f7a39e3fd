/**
 * Conversations that were saved, in the browser's private file system (OPFS): `foretoken-chats/<name>/` holds `meta`, which says
 * what was said and for which tokens there are keys and values, and these, `<layer>-<tag>`; each file is sealed.
 */
import { entries, readFile, removeFrom, unseal, write } from "./sealed.js";
import { failure } from "./transfer.js";

/**
 * @import { Message } from "./api.js"
 * @typedef {{ messages: Message[], options: object, tokens: number[], tag: string }} Saved
 * @typedef {{ name: string, messages: number, bytes: number }} SavedChatInfo `bytes`: on disk
 */

const ROOT = "foretoken-chats";

/** @param {boolean} create */
const openRoot = async (create) => (await navigator.storage.getDirectory()).getDirectoryHandle(ROOT, { create });
/** @template T @param {string} name @param {LockMode} mode @param {() => Promise<T>} work @returns {Promise<T>} */
const locked = (name, mode, work) => navigator.locks.request(`foretoken chat ${name}`, { mode }, work);
const encode = (/** @type {unknown} */ value) => new TextEncoder().encode(JSON.stringify(value));

/**
 * Saves a conversation under a name, in place of another one; as long as that lasts, the other one is there.
 * @param {string} name
 * @param {Omit<Saved, "tokens" | "tag">} said
 * @param {(write: (layer: number, bytes: Uint8Array<ArrayBuffer>) => Promise<void>) => Promise<number[]>} layers gives what is cached of it
 */
export function save(name, said, layers) {
  return locked(name, "exclusive", async () => {
    const folder = await (await openRoot(true)).getDirectoryHandle(encodeURIComponent(name), { create: true });
    const tag = crypto.randomUUID().slice(0, 8);
    const tokens = await layers((layer, bytes) => write(folder, `${layer}-${tag}`, bytes));
    await write(folder, "meta", encode({ ...said, tokens, tag }));
    for (const [file] of await entries(folder)) if (file !== "meta" && !file.endsWith(`-${tag}`)) await removeFrom(folder, file);
    return tokens.length;
  });
}

/**
 * What was said in a conversation. Rejects with `not-found`.
 * @param {string} name
 * @param {(saved: Saved, read: (layer: number) => Promise<Uint8Array>) => Promise<boolean>} restore takes what was cached of it
 */
export function restore(name, restore) {
  return locked(name, "shared", async () => {
    const folder = await openFolder(name);
    const saved = folder && (await readMeta(folder));
    if (!saved)
      throw failure("not-found", `there is no saved conversation with the name ${name}`, { path: name, reason: "it was not saved here, or was deleted" });
    const read = async (/** @type {number} */ layer) => (await unseal(await readFile(folder, `${layer}-${saved.tag}`))) ?? new Uint8Array();
    // Whatever became of them, the messages are enough: they are read again.
    const isCached = saved.tokens.length > 0 && (await restore(saved, read).catch(() => false));
    const { messages, options, tokens } = saved;
    return { messages, options, cached: isCached ? tokens.length : 0 };
  });
}

/** @param {string} name @returns {Promise<FileSystemDirectoryHandle | null>} */
async function openFolder(name) {
  return openRoot(false)
    .then((root) => root.getDirectoryHandle(encodeURIComponent(name)))
    .catch(() => null);
}

/** @param {FileSystemDirectoryHandle} folder @returns {Promise<Saved | null>} */
async function readMeta(folder) {
  const bytes = await readFile(folder, "meta")
    .then(unseal)
    .catch(() => null);
  return bytes && JSON.parse(new TextDecoder().decode(bytes));
}

/** The conversations that are saved here. @returns {Promise<SavedChatInfo[]>} */
export async function list() {
  const root = await openRoot(false).catch(() => null);
  const all = root ? await entries(root) : [];
  const found = await Promise.all(
    all.map(async ([name, folder]) => {
      const meta = await readMeta(folder);
      const files = await Promise.all((await entries(folder)).map(([, file]) => file.getFile().catch(() => ({ size: 0 }))));
      return meta && { name: decodeURIComponent(name), messages: meta.messages.length, bytes: files.reduce((sum, { size }) => sum + size, 0) };
    }),
  );
  return found.filter((each) => each !== null);
}

/** Whether there was one, which is gone now. @param {string} name */
export function remove(name) {
  return locked(name, "exclusive", async () => {
    const root = await openRoot(false).catch(() => null);
    return !!root && removeFrom(root, encodeURIComponent(name));
  });
}
