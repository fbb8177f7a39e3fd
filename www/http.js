/** Requests to servers. What a server with a target is asked and answers, the engine's module knows (src/wasm/served.rs). */

/**
 * Asks a server: posts JSON, or gets what is there.
 * @param {string} url
 * @param {string | undefined} key sent as `Authorization: Bearer`
 * @param {string | undefined} body JSON
 * @param {RequestInit} how
 */
export function ask(url, key, body, how) {
  const headers = { ...(body && { "Content-Type": "application/json" }), ...(key && { Authorization: `Bearer ${key}` }) };
  return fetch(url, { method: body ? "POST" : "GET", headers, body, ...how });
}

/** Returns after how many seconds a server wants to be asked again, which it says in seconds or as a date. @param {Headers} headers */
export function retryAfter(headers) {
  const said = headers.get("retry-after");
  const seconds = said && (Number(said) >= 0 ? Number(said) : (Date.parse(said) - Date.now()) / 1000);
  return seconds || seconds === 0 ? Math.max(seconds, 0) : undefined;
}

/**
 * Returns what a promise gives that a server keeps, unless it is silent for too long.
 * @template T
 * @param {Promise<T>} promise
 * @param {number} seconds
 * @param {() => void} [giveUp]
 * @returns {Promise<T>}
 */
export async function unlessSilent(promise, seconds, giveUp = () => {}) {
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  const silent = new Promise((_, reject) => {
    timer = setTimeout(() => {
      reject(new Error(`nothing came for ${seconds} s`));
      giveUp();
    }, 1000 * seconds);
  });
  try {
    return await Promise.race([promise, /** @type {Promise<never>} */ (silent)]);
  } finally {
    clearTimeout(timer);
  }
}

/** A request and its answer, as it comes. */
class Exchange {
  #control = new AbortController();
  /** @type {Promise<Response>} */
  #response;
  /** @type {ReadableStreamDefaultReader<Uint8Array> | undefined} */
  #reader;
  #silence;

  /**
   * @param {string} url
   * @param {string | undefined} key
   * @param {string | undefined} body JSON to post; without it, it is only asked what is there
   * @param {number} silence seconds without a byte, after which it fails
   */
  constructor(url, key, body, silence) {
    this.#silence = silence;
    const { signal } = this.#control;
    // A redirect would take the key elsewhere.
    this.#response = ask(url, key, body, { signal, redirect: "error", credentials: "omit", cache: "no-store" });
    this.#response.catch(() => {});
  }

  /** @returns {Promise<{ status: number, retryAfter?: number } | Uint8Array | null>} first the head, then the body in pieces; null at the end */
  next() {
    return unlessSilent(this.#next(), this.#silence, () => this.abort());
  }

  async #next() {
    if (this.#reader) return (await this.#reader.read()).value ?? null;
    const { status, headers, body } = await this.#response.catch((error) => {
      if (error instanceof TypeError) throw new Error(`${error.message}: it does not run, redirects, or does not allow this page's origin (CORS)`);
      throw error;
    });
    this.#reader = (body ?? new Blob().stream()).getReader();
    return { status, retryAfter: retryAfter(headers) };
  }

  /** Breaks it off. */
  abort() {
    this.#control.abort();
  }
}

/** Lets messages and answers in, sooner than a timer. */
const turn = () =>
  new Promise((/** @type {(value?: unknown) => void} */ resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(null);
  });

/** As the engine's module wants it. */
export const transport = {
  /** @param {string} url @param {string | undefined} key @param {string | undefined} body @param {number} silence */
  send: (url, key, body, silence) => new Exchange(url, key, body, silence),
  /** @param {number} seconds */
  pause: (seconds) => (seconds ? new Promise((resolve) => setTimeout(resolve, 1000 * seconds)) : turn()),
};
