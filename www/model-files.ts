/** Files of a model: from the Hub, from a URL, or picked by the user. */
import { type Cache, isAddress, withoutQuery } from "./cache.js";
import { badOption, failure } from "./error.js";
import { ServerFiles } from "./server-files.js";
import type { DownloaderOptions } from "./downloader.js";

/** Model files, as the engine's module reads them. */
export type Files = {
  /** Name of the model in messages. */
  name: string;
  /** Returns the names of the files; none if they are unknown. */
  list: () => Promise<string[]>;
  /** Returns the bytes of a file; null if there is no such file. */
  size: (file: string) => Promise<number | null>;
  /** Reads exactly these bytes. */
  read: (file: string, start: number, end: number) => Promise<Uint8Array>;
  close?: () => Promise<void>;
  /** Returns the bytes of opened files that were not stored. */
  missing?: () => Promise<number>;
};

type HubOptions = {
  endpoint?: string;
  revision?: string;
  /** Sent to the Hub only. */
  token?: string;
};

/** Opens the files of a model. @param options `base`: base of relative URLs */
export function openFiles(
  model: string | URL | File[] | FileSystemDirectoryHandle,
  options: HubOptions & Omit<DownloaderOptions, "key"> & { base?: string; cache?: Cache },
): Files {
  if (Array.isArray(model)) return new PickedFiles(model);
  if (typeof model === "object" && "getFileHandle" in model) return new Directory(model);
  const text = String(model);
  const refused = () => badOption("model", text, "owner/name on the Hub, a URL, files");
  if (isAddress(text)) {
    if (!URL.canParse(text, options.base)) throw refused();
    const folder = new URL(text, options.base);
    const only = /[^/]+\.gguf$/.exec(folder.pathname)?.[0];
    if (only) folder.pathname = folder.pathname.slice(0, -only.length);
    else if (!folder.pathname.endsWith("/")) folder.pathname += "/";
    return new ServerFiles(withoutQuery(text), folder.href, { ...options, only: only && decodeURIComponent(only) });
  }
  const [, name, revision = options.revision ?? "main"] = /^([\w.-]+\/[\w.-]+)(?:@(.+))?$/.exec(text) ?? [];
  if (!name) throw refused();
  const { endpoint = "https://huggingface.co", token } = options;
  const [hub, commit] = [endpoint.replace(/\/+$/, ""), encodeURIComponent(revision)];
  // The files of a full commit id never change.
  const pinned = /^[0-9a-f]{40}$/.test(revision);
  const listing = `${hub}/api/models/${name}/revision/${commit}`;
  return new ServerFiles(text, `${hub}/${name}/resolve/${commit}/`, { ...options, key: token, pinned, listing });
}

class PickedFiles implements Files {
  declare files: File[];
  declare name: string;

  constructor(files: File[]) {
    this.files = files;
    this.name = files[0]?.webkitRelativePath.split("/")[0] || "the picked files";
  }

  async open(file: string): Promise<File | undefined> {
    const depth = ({ webkitRelativePath }: File) => webkitRelativePath.split("/").length;
    // Folders of other formats, such as onnx/, may have files of the same names.
    return this.files.filter(({ name }) => name === file).sort((a, b) => depth(a) - depth(b))[0];
  }

  async list() {
    return this.files.map(({ name }) => name);
  }

  async size(file: string) {
    return (await this.open(file))?.size ?? null;
  }

  async read(file: string, start: number, end: number) {
    const opened = await this.open(file);
    if (!opened) throw failure("not-found", `${this.name}: there is no ${file}`, { path: file });
    try {
      return new Uint8Array(await opened.slice(start, end).arrayBuffer());
    } catch (error) {
      throw failure("not-found", `${file}: cannot be read: ${error}. Pick it again if it has changed`, { path: file });
    }
  }
}

class Directory extends PickedFiles implements Files {
  declare handle: FileSystemDirectoryHandle;
  declare name: string;

  constructor(handle: FileSystemDirectoryHandle) {
    super([]);
    this.handle = handle;
    this.name = handle.name;
  }

  async list() {
    const names = [];
    for await (const name of this.handle.keys()) names.push(name);
    return names;
  }

  async open(file: string) {
    try {
      return await (await this.handle.getFileHandle(file)).getFile();
    } catch (error) {
      if ((error as DOMException).name === "NotFoundError") return undefined;
      throw failure("not-found", `${this.name}/${file}: cannot be read: ${error}`, { path: file });
    }
  }
}
