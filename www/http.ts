/** HTTP requests. */

type RequestOptions = Omit<RequestInit, "headers"> & { headers?: Record<string, string>; body?: string; key?: string };

/** Sends a request: POST if it has a `body`, which is JSON, else GET. `key` is sent as `Authorization: Bearer`. */
export function request(url: string, { headers, key, ...options }: RequestOptions) {
  const { body } = options;
  const all = { ...(body && { "Content-Type": "application/json" }), ...(key && { Authorization: `Bearer ${key}` }), ...headers };
  return fetch(url, { method: body ? "POST" : "GET", headers: all, ...options });
}

/** Parses `Retry-After`, which is in seconds or a date. Returns seconds; undefined without it. */
export function retryAfter(headers: Headers) {
  const value = headers.get("retry-after");
  const seconds = value && (Number(value) >= 0 ? Number(value) : (Date.parse(value) - Date.now()) / 1000);
  return seconds || seconds === 0 ? Math.max(seconds, 0) : undefined;
}

/** Returns a controller that `signal` aborts too. AbortSignal.any is younger than WebGPU. */
export function linked(signal: AbortSignal) {
  const control = new AbortController();
  signal.addEventListener("abort", () => control.abort(), { signal: control.signal });
  if (signal.aborted) control.abort();
  return control;
}

/** Awaits a promise for this many seconds; then calls `giveUp` and rejects. */
export async function unlessSilent<T>(promise: Promise<T>, seconds: number, giveUp: () => void = () => {}): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const silent = new Promise((_, reject) => {
    timer = setTimeout(() => {
      reject(new Error(`nothing came for ${seconds} s`));
      giveUp();
    }, 1000 * seconds);
  });
  try {
    return await Promise.race([promise, silent as Promise<never>]);
  } finally {
    clearTimeout(timer);
  }
}

/** A request and its streamed answer. */
class Exchange {
  #control = new AbortController();
  #response: Promise<Response>;
  #reader: ReadableStreamDefaultReader<Uint8Array> | undefined;
  #silence;

  /** @param silence seconds without a byte after which the request fails */
  constructor(url: string, key: string | undefined, body: string | undefined, silence: number) {
    this.#silence = silence;
    const { signal } = this.#control;
    // A redirect would send the key elsewhere.
    this.#response = request(url, { key, body, signal, redirect: "error", credentials: "omit", cache: "no-store" });
    this.#response.catch(() => {});
  }

  /** Returns the head, then the pieces of the body, then null. */
  next(): Promise<{ status: number; retryAfter?: number } | Uint8Array | null> {
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

  abort() {
    this.#control.abort();
  }
}

/** Lets other events run; faster than a timer. */
const turn = () =>
  new Promise((resolve: (value?: unknown) => void) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(null);
  });

/** Requests of the engine's module: the type `Sender` in Rust. */
export const transport = {
  send: (url: string, key: string | undefined, body: string | undefined, silence: number) => new Exchange(url, key, body, silence),
  pause: (seconds: number) => (seconds ? new Promise((resolve) => setTimeout(resolve, 1000 * seconds)) : turn()),
};
