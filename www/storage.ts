/** Lists and deletes stored models and conversations. Loaded on demand. */
import { ROOT, lockName, withoutQuery } from "./cache.js";
import { inChatsFolder, locked, withChat } from "./saved-chats.js";
import { SEAL, entries, openRoot, readMeta, removeFrom } from "./opfs.js";

/** `model` and `url`: without a query; `bytes`: on disk; `complete`: all files that were begun are complete */
export type CachedModelInfo = { model: string; url: string; bytes: number; complete: boolean };
/** `bytes`: on disk */
export type SavedChatInfo = { name: string; messages: number; bytes: number };

async function sizes(folder: FileSystemDirectoryHandle) {
  const measured = (await entries(folder)).map(async ([name, file]) => {
    // Files may not be readable while they are written.
    const { size } = await file.getFile().catch(() => ({ size: 0 }));
    return { name, size };
  });
  return Promise.all(measured);
}

const sum = (files: { size: number }[]) => files.reduce((sum, { size }) => sum + size, 0);

export async function listModels(): Promise<CachedModelInfo[]> {
  return (await models()).map(({ key, ...info }) => info);
}

/** Deletes a model by its name or URL, or all models. Returns false if there is none, or if one is being loaded. */
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

export const listChats = (): Promise<SavedChatInfo[]> =>
  inChatsFolder(async (root) => {
    const describe = async (key: string, folder: FileSystemDirectoryHandle) => {
      const meta = await readMeta(folder);
      // The save was interrupted.
      if (!meta) return removeFrom(root, key).then(() => []);
      return [{ name: meta.name, messages: meta.messages.length, bytes: sum(await sizes(folder)) }];
    };
    const all = await entries(root);
    return (await Promise.all(all.map(([key, folder]) => locked(key, "shared", () => describe(key, folder))))).flat();
  });

/** Deletes a conversation. Returns false if there is none. */
export const removeChat = (name: string): Promise<boolean> => withChat(name, "exclusive", removeFrom);
