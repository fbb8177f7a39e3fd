/** Where the files of a model come from in a browser: a Hub id, a base URL, or files that the user picked. */
import { isAddress, withoutQuery } from "./cache.js";
import { badOption, failure } from "./error.js";
import { Remote } from "./remote.js";

/**
 * @typedef {object} Files What the engine reads a model from.
 * @property {string} name what a person would call the model in a message
 * @property {() => Promise<string[]>} list the names of its files; none where they cannot be told
 * @property {(file: string) => Promise<number | null>} size bytes of a file; null when there is no such file
 * @property {(file: string, start: number, end: number) => Promise<Uint8Array>} read exactly these bytes
 * @property {() => Promise<void>} [close] nothing more is read for now
 * @property {() => Promise<number>} [missing] bytes of what was opened that have to be downloaded
 */

/**
 * @typedef {object} HubOptions
 * @property {string} [endpoint] the Hub; https://huggingface.co by default
 * @property {string} [revision] a branch, tag or commit; `main` by default
 * @property {string} [token] sent as `Authorization: Bearer`, to Hub ids only
 */

/**
 * The files of a model.
 * @param {string | URL | File[] | FileSystemDirectoryHandle} model
 * @param {HubOptions & import("./transfer.js").TransferOptions & { base?: string, cache?: import("./cache.js").Cache }} options
 *   `base`: what relative URLs start from; `cache`: where downloads are kept
 * @returns {Files}
 */
export function openFiles(model, options) {
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
    return new Remote(withoutQuery(text), folder.href, { ...options, only: only && decodeURIComponent(only) });
  }
  if (!/^[\w.-]+\/[\w.-]+$/.test(text)) throw refused();
  const { endpoint = "https://huggingface.co", revision = "main", token } = options;
  const [hub, commit] = [endpoint.replace(/\/+$/, ""), encodeURIComponent(revision)];
  const headers = token ? { Authorization: `Bearer ${token}` } : undefined;
  // A whole commit id names the same bytes for ever.
  const pinned = /^[0-9a-f]{40}$/.test(revision);
  const listing = `${hub}/api/models/${text}/revision/${commit}`;
  return new Remote(text, `${hub}/${text}/resolve/${commit}/`, { ...options, headers, pinned, listing });
}

/** @implements {Files} */
class PickedFiles {
  /** @param {File[]} files */
  constructor(files) {
    this.files = files;
    this.name = files[0]?.webkitRelativePath.split("/")[0] || "the picked files";
  }

  /** @param {string} file @returns {Promise<File | undefined>} */
  async open(file) {
    const depth = (/** @type {File} */ { webkitRelativePath }) => webkitRelativePath.split("/").length;
    // Folders of other formats, such as onnx/, hold files of the same names.
    return this.files.filter(({ name }) => name === file).sort((a, b) => depth(a) - depth(b))[0];
  }

  async list() {
    return this.files.map(({ name }) => name);
  }

  /** @param {string} file */
  async size(file) {
    return (await this.open(file))?.size ?? null;
  }

  /** @param {string} file @param {number} start @param {number} end */
  async read(file, start, end) {
    const opened = await this.open(file);
    if (!opened) throw failure("not-found", `${this.name}: there is no ${file}`, { path: file });
    try {
      return new Uint8Array(await opened.slice(start, end).arrayBuffer());
    } catch (error) {
      throw failure("not-found", `${file}: cannot be read: ${error}. Pick it again if it has changed`, { path: file });
    }
  }
}

/** @implements {Files} */
class Directory extends PickedFiles {
  /** @param {FileSystemDirectoryHandle} handle */
  constructor(handle) {
    super([]);
    this.handle = handle;
    this.name = handle.name;
  }

  async list() {
    const names = [];
    for await (const name of this.handle.keys()) names.push(name);
    return names;
  }

  /** @param {string} file */
  async open(file) {
    try {
      return await (await this.handle.getFileHandle(file)).getFile();
    } catch (error) {
      if (/** @type {DOMException} */ (error).name === "NotFoundError") return undefined;
      throw failure("not-found", `${this.name}/${file}: cannot be read: ${error}`, { path: file });
    }
  }
}
