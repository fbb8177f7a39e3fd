/** Bytes from a server: requests that are tried again, progress that only grows, lengths that nobody takes on trust. */
import { CHUNK } from "./cache.js";

/** @typedef {{ phase: "download", model: "target" | "assistant", file: string, loaded: number, total: number }} DownloadProgress */

/**
 * @typedef {object} TransferOptions
 * @property {Record<string, string>} [headers] sent along
 * @property {"target" | "assistant"} role which model it is, for progress
 * @property {AbortSignal} signal
 * @property {(progress: DownloadProgress) => void} onProgress
 */

const TRIES = 3;
/** Milliseconds without a byte, or without an answer, after which a request counts as cut. */
export const patience = { silence: 30_000 };

/**
 * An error in the shape in which all errors of the engine travel.
 * @param {string} code
 * @param {string} message
 * @param {unknown} [detail]
 */
export function failure(code, message, detail = null) {
  return { code, message, detail };
}

/** What comes from one server for one model. */
export class Transfer {
  /** @type {Map<string, number>} bytes here, by file */
  loaded = new Map();
  /** @type {Map<string, number>} bytes reported, by file */
  shown = new Map();

  /**
   * @param {string} base
   * @param {TransferOptions} options
   */
  constructor(base, { headers = {}, role, signal, onProgress }) {
    this.base = base;
    this.headers = headers;
    this.role = role;
    this.signal = signal;
    this.onProgress = onProgress;
  }

  /** @param {string} file @param {number} [start] @param {number} [end] @param {AbortSignal} [signal] */
  async fetch(file, start, end, signal = this.signal) {
    const headers = new Headers(this.headers);
    if (end !== undefined) headers.set("Range", `bytes=${start}-${end - 1}`);
    const url = this.base + file.split("/").map(encodeURIComponent).join("/");
    // The browser's own cache would keep everything twice, and where chunks of a file come at once, it asks for some again.
    // AbortSignal.any is younger than WebGPU.
    const request = new AbortController();
    const stop = () => request.abort();
    signal.addEventListener("abort", stop, { once: true });
    if (signal.aborted) stop();
    const response = await unlessSilent(fetch(url, { headers, signal: request.signal, cache: "no-store" }), stop);
    const { status } = response;
    if (response.ok || status === 404 || (status === 416 && start === 0)) return response;
    discard(response);
    const detail = { url, status };
    if (status === 401 || status === 403) {
      throw failure("not-found", `${url}: ${status}: there is no such model, or it needs a token`, detail);
    }
    // These pass; others do not.
    const passing = status === 408 || status === 429 || status >= 500;
    const error = failure("network", `${url}: the server answered ${status}`, detail);
    throw passing ? Object.assign(new Error(error.message), { detail }) : error;
  }

  /** A chunk: exactly its bytes. @param {string} file @param {Response} response @param {number} start where it begins @param {number} total */
  async chunk(file, response, start, total) {
    const bytes = new Uint8Array(Math.min(CHUNK, total - start));
    let size = 0;
    try {
      const from = Number(/^bytes (\d+)-/.exec(response.headers.get("content-range") ?? "")?.[1]);
      if (from !== start) throw new Error(`bytes from ${from} came instead of those from ${start}`);
      for await (const part of parts(response)) {
        if (size + part.length > bytes.length) throw new Error(`more than ${bytes.length} bytes came`);
        bytes.set(part, size);
        size += part.length;
        this.report(file, part.length, total);
      }
      if (size < bytes.length) throw new Error(`${size} bytes came instead of ${bytes.length}`);
      return bytes;
    } catch (error) {
      discard(response);
      this.report(file, -size, total, true);
      throw error;
    }
  }

  /** All chunks at once. @param {string} file @param {Response} response */
  async whole(file, response) {
    const total = Number(response.headers.get("content-length"));
    const chunks = [];
    const chunk = new Uint8Array(CHUNK);
    let [filled, size] = [0, 0];
    try {
      for await (const part of parts(response)) {
        for (let at = 0; at < part.length; ) {
          const fits = part.subarray(at, at + CHUNK - filled);
          chunk.set(fits, filled);
          at += fits.length;
          filled += fits.length;
          if (filled < CHUNK) continue;
          chunks.push(new Blob([chunk]));
          filled = 0;
        }
        size += part.length;
        this.report(file, part.length, total);
      }
      return filled ? [...chunks, new Blob([chunk.subarray(0, filled)])] : chunks;
    } catch (error) {
      this.report(file, -size, total, true);
      throw error;
    }
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
      } catch (thrown) {
        if (this.signal.aborted) throw failure("aborted", "aborted");
        if (isFailure(thrown)) throw thrown;
        const error = /** @type {Error & { detail?: unknown }} */ (thrown);
        if (tried === TRIES) {
          throw failure("network", `${this.base}${file}: ${error.message}`, error.detail ?? { url: this.base + file, tries: TRIES });
        }
        await new Promise((resolve) => setTimeout(resolve, 250 * 4 ** (tried - 1)));
      }
    }
  }
}

/** Whether it has the shape of {@link failure}; a DOMException has a code too, but a number. @param {any} error */
export function isFailure(error) {
  return typeof error?.code === "string";
}

/** Bytes of a chunk. @param {number} total @param {number} index */
export function chunkLength(total, index) {
  return Math.min(CHUNK, total - index * CHUNK);
}

/**
 * What an answer says of the file: `total` is null where the server knows no Range, or does not say.
 * @param {Response} response
 */
export function describe({ status, headers }) {
  // Many servers of single-page apps answer every unknown path with their page.
  const absent = status === 404 || (status !== 416 && !!headers.get("content-type")?.startsWith("text/html"));
  const said = status === 206 ? Number(headers.get("content-range")?.split("/")[1]) : 0;
  const total = status === 416 ? 0 : Number.isSafeInteger(said) && said > 0 ? said : null;
  const version = headers.get("etag")?.replace(/^W\//, "") ?? headers.get("last-modified");
  return { absent, total, version };
}

/** Lets go of an answer that nobody reads. @param {Response} response */
export function discard({ body }) {
  body?.cancel().catch(() => {});
}

/** The bytes of an answer, as they come. @param {Response} response */
async function* parts({ body }) {
  if (!body) throw new Error("an empty answer came");
  const reader = body.getReader();
  try {
    for (;;) {
      const part = await unlessSilent(reader.read());
      if (part.done) return;
      yield part.value;
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

/**
 * What comes of a promise that a server keeps, unless it is silent for too long.
 * @template T @param {Promise<T>} promise @param {() => void} [giveUp] @returns {Promise<T>}
 */
async function unlessSilent(promise, giveUp = () => {}) {
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  const silent = new Promise((_, reject) => {
    timer = setTimeout(() => {
      reject(new Error(`nothing came for ${patience.silence / 1000} s`));
      giveUp();
    }, patience.silence);
  });
  try {
    return await Promise.race([promise, /** @type {Promise<never>} */ (silent)]);
  } finally {
    clearTimeout(timer);
  }
}
