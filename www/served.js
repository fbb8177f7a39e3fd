/** How a target on a server is reached; what is asked and answered, the engine's module knows (src/wasm/served.rs). */

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
    const headers = { ...(body && { "Content-Type": "application/json" }), ...(key && { Authorization: `Bearer ${key}` }) };
    const { signal } = this.#control;
    // A redirect would take the key elsewhere.
    this.#response = fetch(url, { method: body ? "POST" : "GET", headers, body, signal, redirect: "error", credentials: "omit", cache: "no-store" });
    this.#response.catch(() => {});
  }

  /** @returns {Promise<{ status: number, retryAfter?: number } | Uint8Array | null>} first the head, then the body in pieces; null at the end */
  async next() {
    const timer = setTimeout(() => this.#control.abort(new Error(`nothing came for ${this.#silence} s`)), 1000 * this.#silence);
    try {
      if (this.#reader) return (await this.#reader.read()).value ?? null;
      const { status, headers, body } = await this.#response.catch((error) => {
        if (error instanceof TypeError) throw new Error(`${error.message}: it does not run, redirects, or does not allow this page's origin (CORS)`);
        throw error;
      });
      this.#reader = (body ?? new Blob().stream()).getReader();
      return { status, retryAfter: seconds(headers.get("Retry-After")) };
    } finally {
      clearTimeout(timer);
    }
  }

  /** Breaks it off. */
  abort() {
    this.#control.abort();
  }
}

/** @param {string | null} said seconds, or a date */
function seconds(said) {
  if (said === null) return undefined;
  const seconds = Number(said) >= 0 ? Number(said) : (Date.parse(said) - Date.now()) / 1000;
  return Number.isNaN(seconds) ? undefined : Math.max(seconds, 0);
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
