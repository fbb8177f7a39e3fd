/**
 * Where the files of a model come from in a browser: a Hub id, a base URL, or files that the user picked.
 * A file on a server comes in chunks by Range, each fetched once; where there is no Range, it comes whole.
 */

/**
 * @typedef {object} Files What the engine reads a model from.
 * @property {string} name what a person would call the model in a message
 * @property {(file: string) => Promise<number | null>} size bytes of a file; null when there is no such file
 * @property {(file: string, start: number, end: number) => Promise<Uint8Array>} read exactly these bytes
 */

/**
 * @typedef {object} HubOptions
 * @property {string} [endpoint] the Hub; https://huggingface.co by default
 * @property {string} [revision] a branch, tag or commit; `main` by default
 * @property {string} [token] sent as `Authorization: Bearer`, to Hub ids only
 */

/** @typedef {{ phase: "download", model: "target" | "assistant", file: string, loaded: number, total: number }} DownloadProgress */

/** Bytes per request: large enough to amortise a round trip, small enough to repeat after a cut. */
const CHUNK = 8 << 20;
/** Chunks fetched ahead of the one that is read. */
const AHEAD = 3;
const TRIES = 3;

/**
 * An error in the shape in which all errors of the engine travel.
 * @param {string} code
 * @param {string} message
 * @param {unknown} [detail]
 */
export function failure(code, message, detail = null) {
  return { code, message, detail };
}

/**
 * The files of a model.
 * @param {string | URL | File[] | FileSystemDirectoryHandle} model
 * @param {HubOptions & { base: string, signal: AbortSignal, role: "target" | "assistant", onProgress: (progress: DownloadProgress) => void }} options
 *   `base`: what relative URLs start from; `role`: which model it is, for progress
 * @returns {Files}
 */
export function openFiles(model, options) {
  if (Array.isArray(model)) return new PickedFiles(model);
  if (typeof model === "object" && "getFileHandle" in model) return new Directory(model);
  const text = String(model);
  if (/^(\.{0,2}\/|[a-z][a-z0-9+.-]*:)/i.test(text)) {
    return new Remote(text, new URL(text.endsWith("/") ? text : `${text}/`, options.base).href, {}, options);
  }
  if (!/^[\w.-]+\/[\w.-]+$/.test(text)) {
    throw failure("bad-option", `model: ${text} is not allowed; allowed: owner/name on the Hub, a URL, files`, { option: "model", value: text });
  }
  const { endpoint = "https://huggingface.co", revision = "main", token } = options;
  const base = `${endpoint.replace(/\/+$/, "")}/${text}/resolve/${encodeURIComponent(revision)}/`;
  return new Remote(text, base, token ? { Authorization: `Bearer ${token}` } : {}, options);
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
    return this.files.find(({ name }) => name === file);
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

/** @typedef {{ total: number, etag: string | null, chunks: Map<number, Promise<Blob>>, whole?: Blob }} RemoteFile */

/** @implements {Files} */
class Remote {
  /** @type {Map<string, Promise<RemoteFile | null>>} */
  opened = new Map();
  /** @type {Map<string, number>} bytes here, by file */
  loaded = new Map();
  /** @type {Map<string, number>} bytes reported, by file */
  shown = new Map();

  /**
   * @param {string} name
   * @param {string} base
   * @param {Record<string, string>} headers
   * @param {{ signal: AbortSignal, role: "target" | "assistant", onProgress: (progress: DownloadProgress) => void }} options
   */
  constructor(name, base, headers, { signal, role, onProgress }) {
    this.role = role;
    this.name = name;
    this.base = base;
    this.headers = headers;
    this.signal = signal;
    this.onProgress = onProgress;
  }

  /** @param {string} file */
  async size(file) {
    return (await this.open(file))?.total ?? null;
  }

  /** @param {string} file @param {number} start @param {number} end */
  async read(file, start, end) {
    const opened = await this.open(file);
    if (!opened) throw failure("not-found", `${this.name}: there is no ${file}`, { path: this.base + file });
    if (opened.whole) return bytes(opened.whole.slice(start, end));
    const first = Math.floor(start / CHUNK);
    const last = Math.floor(Math.max(start, end - 1) / CHUNK);
    const wanted = [];
    for (let i = first; i <= Math.min(last + AHEAD, Math.ceil(opened.total / CHUNK) - 1); i++) {
      const chunk = this.chunk(file, opened, i);
      if (i <= last) wanted.push(chunk);
    }
    const whole = new Blob(await Promise.all(wanted));
    return bytes(whole.slice(start - first * CHUNK, end - first * CHUNK));
  }

  /**
   * The first request tells the size and brings the first chunk, which for small files is all.
   * @param {string} file
   */
  open(file) {
    const opened = this.opened.get(file) ?? this.first(file);
    this.opened.set(file, opened);
    return opened;
  }

  /** @param {string} file @returns {Promise<RemoteFile | null>} */
  async first(file) {
    return this.retry(file, async () => {
      const response = await this.fetch(file, 0, CHUNK);
      if (response.status === 404) return null;
      if (response.status === 416) return { total: 0, etag: null, chunks: new Map(), whole: new Blob() };
      // Many servers of single-page apps answer every unknown path with their page.
      if (response.headers.get("content-type")?.startsWith("text/html")) return null;
      const total = Number(response.headers.get("content-range")?.split("/")[1]);
      const etag = response.headers.get("etag");
      const report = { total: total || Number(response.headers.get("content-length")) };
      const chunk = await this.body(file, response, report);
      if (response.status === 206 && total > 0) {
        if (chunk.size !== Math.min(CHUNK, total)) throw new Error(`${chunk.size} bytes came instead of ${Math.min(CHUNK, total)}`);
        return { total, etag, chunks: new Map([[0, Promise.resolve(chunk)]]) };
      }
      const whole = response.status === 206 ? await this.body(file, await this.fetch(file), report) : chunk;
      return { total: whole.size, etag, chunks: new Map(), whole };
    });
  }

  /** @param {string} file @param {RemoteFile} opened @param {number} index @returns {Promise<Blob>} */
  chunk(file, opened, index) {
    let chunk = opened.chunks.get(index);
    if (!chunk) {
      const start = index * CHUNK;
      const end = Math.min(start + CHUNK, opened.total);
      chunk = this.retry(file, async () => {
        const response = await this.fetch(file, start, end);
        const changed = response.headers.get("etag") !== opened.etag;
        if (response.status !== 206 || changed) {
          throw failure("integrity", `${this.base}${file} changed while it was downloaded: load the model again`, { file });
        }
        const body = await this.body(file, response, opened);
        if (body.size !== end - start) throw new Error(`${body.size} bytes came instead of ${end - start}`);
        return body;
      });
      // Whoever reads the chunk hears of its failure; a chunk ahead may never be read.
      chunk.catch(() => {});
      opened.chunks.set(index, chunk);
    }
    return chunk;
  }

  /** @param {string} file @param {number} [start] @param {number} [end] */
  async fetch(file, start, end) {
    /** @type {Record<string, string>} */
    const range = end === undefined ? {} : { Range: `bytes=${start}-${end - 1}` };
    const url = this.base + file.split("/").map(encodeURIComponent).join("/");
    const response = await fetch(url, { headers: { ...this.headers, ...range }, signal: this.signal });
    const { status } = response;
    if (response.ok || status === 404 || (status === 416 && start === 0)) return response;
    const detail = { url, status };
    if (status === 401 || status === 403) {
      throw failure("not-found", `${url}: ${status}: there is no such model, or it needs a token`, detail);
    }
    // These pass; others do not.
    const passing = status === 408 || status === 429 || status >= 500;
    const error = failure("network", `${url}: the server answered ${status}`, detail);
    throw passing ? Object.assign(new Error(error.message), { detail }) : error;
  }

  /** @param {string} file @param {Response} response @param {{ total: number }} report */
  async body(file, response, { total }) {
    const parts = [];
    let size = 0;
    try {
      const reader = /** @type {ReadableStream<Uint8Array<ArrayBuffer>>} */ (response.body).getReader();
      for (let part = await reader.read(); !part.done; part = await reader.read()) {
        parts.push(part.value);
        size += part.value.length;
        this.report(file, part.value.length, total);
      }
    } catch (error) {
      this.report(file, -size, total, true);
      throw error;
    }
    return new Blob(parts);
  }

  /** @param {string} file @param {number} more @param {number} total @param {boolean} [silent] */
  report(file, more, total, silent = false) {
    const loaded = (this.loaded.get(file) ?? 0) + more;
    this.loaded.set(file, loaded);
    // What a cut took back is not shown, so that progress only ever grows.
    if (!silent && loaded > (this.shown.get(file) ?? 0)) {
      this.shown.set(file, loaded);
      this.onProgress({ phase: "download", model: this.role, file, loaded, total: Math.max(total, loaded) });
    }
  }

  /** @template T @param {string} file @param {() => Promise<T>} attempt @returns {Promise<T>} */
  async retry(file, attempt) {
    for (let tried = 1; ; tried++) {
      try {
        return await attempt();
      } catch (error) {
        if (this.signal.aborted) throw failure("aborted", "aborted");
        if (error.code && typeof error.code === "string") throw error;
        if (tried === TRIES) {
          throw failure("network", `${this.base}${file}: ${error.message}`, error.detail ?? { url: this.base + file, tries: TRIES });
        }
        await new Promise((resolve) => setTimeout(resolve, 250 * 4 ** (tried - 1)));
      }
    }
  }
}

/** @param {Blob} blob */
async function bytes(blob) {
  return new Uint8Array(await blob.arrayBuffer());
}
