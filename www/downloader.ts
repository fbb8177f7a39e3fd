/** Downloads with retries, rising progress and checked lengths. */
import { CHUNK, withoutQuery } from "./cache.js";
import { aborted, failure, isFailure } from "./error.js";
import { linked, request, retryAfter, unlessSilent } from "./http.js";

type DownloadProgress = { phase: "download"; model: "target" | "assistant"; file: string; loaded: number; total: number };

export type DownloaderOptions = {
  key?: string;
  role: "target" | "assistant";
  signal: AbortSignal;
  onProgress: (progress: DownloadProgress) => void;
};

/** Milliseconds. */
export const patience = {
  /** After this time without a byte or an answer, a request has failed. */
  silence: 30_000,
  /** Pauses between attempts, about. */
  pauses: [1000, 2000, 4000, 8000, 16_000, 30_000],
  /** The longest pause that a server may ask for instead. */
  retryAfter: 300_000,
};
/** Number of pauses for a server that has never answered: its address is probably wrong. */
const FEW_PAUSES = 2;

/** Meanings of the Hub's codes. */
const REFUSALS: Record<string, string> = {
  GatedRepo: "the model is gated: accept its conditions on its page, and give the `token` of an account that may read it",
  RepoNotFound: "there is no such model, or it is private: check the name; if it is private, give the `token` of an account that may read it",
  RevisionNotFound: "the model has no such `revision`: no branch, tag or commit is called so",
};

/** The requests to one server for one model. */
export class Downloader {
  /** Downloaded bytes by file. */
  loaded: Map<string, number> = new Map();
  /** Reported bytes by file. */
  shown: Map<string, number> = new Map();
  /** True once the server has answered. */
  answered = false;

  declare base;
  declare options;

  /** @param base the folder; its query, such as a signature, is sent with each request */
  constructor(base: string, options: DownloaderOptions) {
    this.base = base;
    this.options = options;
  }

  address(file: string) {
    const url = new URL(this.base);
    url.pathname += file.split("/").map(encodeURIComponent).join("/");
    return url.href;
  }

  async fetch(file: string, start?: number, end?: number, signal: AbortSignal = this.options.signal) {
    const headers = end === undefined ? undefined : { Range: `bytes=${start}-${end - 1}` };
    const address = this.address(file);
    const control = linked(signal);
    // The browser's own cache would store everything twice, and request some chunks again if several arrive at once.
    const requested = request(address, { key: this.options.key, headers, signal: control.signal, cache: "no-store" }).catch((error) => {
      // A missing file of an extension fails like a server that is out of reach.
      if (/^https?:/.test(address) || control.signal.aborted) throw error;
      return new Response(null, { status: 404 });
    });
    const response = await unlessSilent(requested, patience.silence / 1000, () => control.abort());
    this.answered = true;
    const { status } = response;
    const url = withoutQuery(address);
    const detail = { url, status };
    const refusal = REFUSALS[response.headers.get("x-error-code") ?? ""];
    if (!refusal && (response.ok || status === 404 || (status === 416 && start === 0))) return response;
    discard(response);
    if (refusal) throw failure("not-found", `${url}: ${refusal}`, detail);
    if (status === 401 || status === 403) {
      throw failure("not-found", `${url}: ${status}: there is no such model, or it needs a token, or a signature that has not expired`, detail);
    }
    const message = `the server answered ${status}`;
    const isTemporary = [408, 425, 429].includes(status) || (status >= 500 && status !== 501 && status !== 505);
    if (!isTemporary) throw failure("network", `${url}: ${message}`, detail);
    throw Object.assign(new Error(message), { detail, retryAfter: 1000 * (retryAfter(response.headers) ?? 0) });
  }

  /** Reads exactly the bytes of the chunk that begins at `start`. */
  async chunk(file: string, response: Response, start: number, total: number) {
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

  /** Reads all chunks of a file, one after the other. Returns its length. */
  async whole(file: string, response: Response, take: (chunk: Uint8Array<ArrayBuffer>) => Promise<void>): Promise<number> {
    const total = Number(response.headers.get("content-length"));
    let chunk = new Uint8Array(CHUNK);
    let [filled, size] = [0, 0];
    try {
      for await (const part of parts(response)) {
        for (let at = 0; at < part.length; ) {
          const fits = part.subarray(at, at + CHUNK - filled);
          chunk.set(fits, filled);
          at += fits.length;
          filled += fits.length;
          if (filled < CHUNK) continue;
          await take(chunk);
          chunk = new Uint8Array(CHUNK);
          filled = 0;
        }
        size += part.length;
        this.report(file, part.length, total);
      }
      if (filled) await take(chunk.slice(0, filled));
      return size;
    } catch (error) {
      this.report(file, -size, total, true);
      throw error;
    }
  }

  report(file: string, more: number, total: number, silent: boolean = false) {
    const loaded = (this.loaded.get(file) ?? 0) + more;
    this.loaded.set(file, loaded);
    // Lost bytes are not reported, so that progress never falls.
    if (!silent && loaded > (this.shown.get(file) ?? 0)) {
      this.shown.set(file, loaded);
      this.options.onProgress({ phase: "download", model: this.options.role, file, loaded, total: Math.max(total, loaded) });
    }
  }

  async retry<T>(file: string, attempt: () => Promise<T>): Promise<T> {
    for (let tries = 1; ; tries++) {
      try {
        return await attempt();
      } catch (thrown) {
        if (this.options.signal.aborted) throw aborted();
        if (isFailure(thrown)) throw thrown;
        const { message, detail, retryAfter = 0 } = thrown as Error & { detail?: unknown; retryAfter?: number };
        const offline = !detail && globalThis.navigator?.onLine === false;
        const pauses = this.answered ? patience.pauses : patience.pauses.slice(0, offline ? 0 : FEW_PAUSES);
        // An interrupted download waits for the connection without a limit.
        if (offline && this.answered) tries = 0;
        const tooLong = retryAfter > patience.retryAfter;
        if (tries > pauses.length || tooLong) {
          const url = withoutQuery(this.address(file));
          const often = tries > 1 ? `, ${tries} times in a row` : "";
          const later = tooLong ? `; the server accepts the next request in ${Math.ceil(retryAfter / 1000)} s` : "";
          throw failure("network", `${url}: ${offline ? "the browser is offline" : message}${often}${later}`, detail ?? { url, tries });
        }
        // Random, so that clients do not return at the same time.
        const pause = (pauses.at(tries - 1) as number) * (0.75 + Math.random() / 2);
        await this.#pause(Math.max(pause, retryAfter), !retryAfter);
      }
    }
  }

  /** Ends early if aborted and, with `orOnline`, if the connection is back. */
  #pause(milliseconds: number, orOnline: boolean) {
    return new Promise((resolve) => {
      const end = () => {
        clearTimeout(timer);
        removeEventListener("online", end);
        this.options.signal.removeEventListener("abort", end);
        resolve(undefined);
      };
      const timer = setTimeout(end, milliseconds);
      if (orOnline) addEventListener("online", end);
      this.options.signal.addEventListener("abort", end);
    });
  }
}

export function chunkLength(total: number, index: number) {
  return Math.min(CHUNK, total - index * CHUNK);
}

/** Reads the file's facts from a response. `total` is null if the server does not support Range or omits the length. */
export function describe({ status, headers }: Response) {
  // Servers of single-page apps answer unknown paths with their page.
  const absent = status === 404 || (status !== 416 && !!headers.get("content-type")?.startsWith("text/html"));
  const said = status === 206 ? Number(headers.get("content-range")?.split("/")[1]) : 0;
  const total = status === 416 ? 0 : Number.isSafeInteger(said) && said > 0 ? said : null;
  const version = headers.get("etag")?.replace(/^W\//, "") ?? headers.get("last-modified");
  return { absent, total, version };
}

export function discard({ body }: Response) {
  body?.cancel().catch(() => {});
}

async function* parts({ body }: Response) {
  if (!body) throw new Error("an empty answer came");
  const reader = body.getReader();
  try {
    for (;;) {
      const part = await unlessSilent(reader.read(), patience.silence / 1000);
      if (part.done) return;
      yield part.value;
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
