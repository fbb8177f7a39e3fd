/**
 * Threads of the CPU: workers with some rows of every large matrix, each in an instance of the engine's module. Requests and answers are in
 * shared memory, which is faster than messages. Only pages that are cross-origin isolated have shared memory.
 */
import type { StartedWorker } from "./instance-workers.js";
import type { Share } from "./foretoken.js";

/** Maximum bytes of data with a request or an answer. */
const ROOM = 1 << 22;
/** Bytes of the words before the data. */
const HEAD = 64;
/** Words: numbers of requests and of answers; bytes of data; first word of the request and its end. The last two are the answer. */
const [ASKED, ANSWERED, LENGTH, QUESTION, END] = [0, 1, 2, 3, 7];
/** Number of times that a word is read before a thread sleeps: the next request mostly comes sooner than a thread wakes. */
const LOOKS = 1 << 15;
/** Milliseconds after which a thread counts as lost. */
const PATIENCE = 30_000;

/** Shared memory for a request, and then for its answer. */
class Mailbox {
  declare buffer;
  declare words;
  declare bytes;
  declare answer;

  constructor(buffer: SharedArrayBuffer) {
    this.buffer = buffer;
    this.words = new Int32Array(buffer, 0, HEAD / 4);
    this.bytes = new Uint8Array(buffer, HEAD, ROOM);
    this.answer = new Float64Array(buffer, HEAD - 8, 1);
  }

  /** Waits until a word has changed. Returns false after `limit` milliseconds. */
  changes(word: number, before: number, limit?: number): boolean {
    for (let look = 0; look < LOOKS; look++) if (Atomics.load(this.words, word) !== before) return true;
    // An earlier change may wake the thread too.
    while (Atomics.load(this.words, word) === before) if (Atomics.wait(this.words, word, before, limit) === "timed-out") return false;
    return true;
  }

  /** Counts a word up and wakes waiting threads. */
  count(word: number) {
    Atomics.add(this.words, word, 1);
    Atomics.notify(this.words, word);
  }
}

/** Answers requests until the worker ends. */
export function answer(buffer: SharedArrayBuffer, share: Share) {
  const box = new Mailbox(buffer);
  for (let asked = 0; ; asked++) {
    while (!box.changes(ASKED, asked));
    try {
      box.answer[0] = share.answer(Uint32Array.from(box.words.subarray(QUESTION, END)), box.words[LENGTH], box.bytes);
    } catch (error) {
      const reason = new TextEncoder().encode(error.message);
      box.bytes.set(reason);
      box.words[LENGTH] = reason.length;
      box.answer[0] = NaN;
    }
    box.count(ANSWERED);
  }
}

/** The other threads, as the engine's module calls them. */
export class Threads {
  room = ROOM;
  #boxes: Mailbox[] = [];

  #requestWorker;
  #module;
  #warn;

  /** @param module the engine's @param warn is called if there are fewer threads than requested */
  constructor(requestWorker: () => Promise<StartedWorker>, module: WebAssembly.Module, warn: (reason: string) => void) {
    this.#requestWorker = requestWorker;
    this.#module = module;
    this.#warn = warn;
  }

  get others() {
    return this.#boxes.length;
  }

  /** Starts threads, if possible. Returns the number of other threads. @param wanted number of threads, this one included */
  async start(wanted?: number) {
    const threads = wanted ?? Math.min(navigator.hardwareConcurrency || 1, 4);
    if (threads < 2) return 0;
    if (typeof SharedArrayBuffer === "undefined" || typeof globalThis.postMessage !== "function") {
      if (wanted) this.#warn("threads: only one, because this page is not cross-origin isolated, or its engine is shared");
      return 0;
    }
    const boxes = await Promise.allSettled(Array.from({ length: threads - 1 }, () => this.#begin()));
    for (const box of boxes) {
      if (box.status === "fulfilled") this.#boxes.push(box.value);
      else this.#warn(`a thread of the CPU could not be started: ${box.reason?.message ?? box.reason}`);
    }
    return this.others;
  }

  async #begin() {
    const worker = await this.#requestWorker();
    const { buffer } = new Mailbox(new SharedArrayBuffer(HEAD + ROOM));
    const started = new Promise((resolve, reject) => {
      worker.failed.then((reason) => reject(new Error(reason)));
      worker.port.onmessage = ({ data }) => (data.type === "started" ? resolve(undefined) : data.type === "error" && reject(new Error(data.error.message)));
    });
    worker.port.postMessage({ type: "share", buffer, module: this.#module });
    await started.catch((error) => {
      worker.terminate();
      throw error;
    });
    return new Mailbox(buffer);
  }

  ask(other: number, question: Uint32Array, bytes: Uint8Array) {
    const box = this.#boxes[other];
    box.bytes.set(bytes);
    box.words.set(question, QUESTION);
    box.words[LENGTH] = bytes.length;
    box.count(ASKED);
  }

  /** Waits for the answer and copies its data into `bytes`. */
  answer(other: number, bytes: Uint8Array): number {
    const box = this.#boxes[other];
    const asked = Atomics.load(box.words, ASKED);
    // The worker fails with this error, and the next call starts another one.
    if (!box.changes(ANSWERED, asked - 1, PATIENCE)) throw new Error("a thread of the CPU does not answer any more");
    const answer = box.answer[0];
    // Shared memory cannot be decoded.
    if (Number.isNaN(answer)) throw new Error(`a thread of the CPU broke down: ${new TextDecoder().decode(box.bytes.slice(0, box.words[LENGTH]))}`);
    bytes.set(box.bytes.subarray(0, bytes.length));
    return answer;
  }
}
