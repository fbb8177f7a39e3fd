/** Lists and deletes what the browser keeps: models and conversations. It is imported when a page asks. */
import { ROOT, lockName, withoutQuery } from "./cache.js";
import { inChatsFolder, locked, withChat } from "./saved-chats.js";
import { SEAL, entries, openRoot, readMeta, removeFrom } from "./opfs.js";

/** `model` and `url`: without a query; `bytes`: on disk; `complete`: whether all of each file that was begun is here */
export type CachedModelInfo = { model: string; url: string; bytes: number; complete: boolean };
/** `bytes`: on disk */
export type SavedChatInfo = { name: string; messages: number; bytes: number };

/** Returns the name and the bytes of each file of a folder. */
async function sizes(folder: FileSystemDirectoryHandle) {
  const measured = (await entries(folder)).map(async ([name, file]) => {
    // A file that is being written may not be readable.
    const { size } = await file.getFile().catch(() => ({ size: 0 }));
    return { name, size };
  });
  return Promise.all(measured);
}

const sum = (files: { size: number }[]) => files.reduce((sum, { size }) => sum + size, 0);

/** The models that are kept. */
export async function listModels(): Promise<CachedModelInfo[]> {
  return (await models()).map(({ key, ...info }) => info);
}

/** Deletes a model, by its name or URL; all models without one. False when there was none, or when one is being loaded just now. */
export async function removeModel(model?: string | URL) {
  const called = withoutQuery(String(model));
  const wanted = (await models()).filter(({ model: name, url }) => model === undefined || [name, url].includes(called));
  const root = wanted.length ? await openRoot(ROOT, false) : null;
  const removed = wanted.map(({ key }) => navigator.locks.request(lockName(key), { ifAvailable: true }, (lock) => !!lock && !!root && removeFrom(root, key)));
  return removed.length > 0 && (await Promise.all(removed)).every(Boolean);
}

async function models() {
  const root = await openRoot(ROOT, false).catch(() => null);
  const folders = root ? await entries(root) : [];
  return Promise.all(
    folders.map(async ([key, folder]) => {
      const info = { key, model: key, url: "", bytes: 0, complete: true };
      for (const [, inside] of await entries(folder)) {
        const meta = await readMeta(inside);
        if (meta) Object.assign(info, { model: meta.model, url: meta.url });
        const files = await sizes(inside);
        info.bytes += sum(files);
        const chunks = files.filter(({ name }) => name.endsWith(`-${meta?.tag}`));
        if (!meta?.absent && sum(chunks) - SEAL * chunks.length !== meta?.total) info.complete = false;
      }
      return info;
    }),
  );
}

/** The conversations that are saved here. */
export const listChats = (): Promise<SavedChatInfo[]> =>
  inChatsFolder(async (root) => {
    const describe = async (key: string, folder: FileSystemDirectoryHandle) => {
      const meta = await readMeta(folder);
      // A save was cut off before it was complete.
      if (!meta) return removeFrom(root, key).then(() => []);
      return [{ name: meta.name, messages: meta.messages.length, bytes: sum(await sizes(folder)) }];
    };
    const all = await entries(root);
    return (await Promise.all(all.map(([key, folder]) => locked(key, "shared", () => describe(key, folder))))).flat();
  });

/** Returns true if there was one, which is gone now. */
export const removeChat = (name: string): Promise<boolean> => withChat(name, "exclusive", removeFrom);
