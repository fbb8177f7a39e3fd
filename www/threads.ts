/**
 * Threads of the CPU: workers of the page that have some rows of every large matrix, each in an instance of the engine's module. What they
 * are asked, and what comes of it, is in memory that all see: no message is as quick. Only a page that is cross-origin isolated has such memory.
 */

import type { StartedWorker } from "./instance-workers.js";
import type { Share } from "./foretoken.js";

/** Bytes that can come with a question or an answer. */
const ROOM = 1 << 22;
/** Bytes in front of them: words in which a question is put. */
const HEAD = 64;
/** Words: how many questions were put, and how many answered; bytes that come with a question; the question, up to its end; the answer. */
const [ASKED, ANSWERED, LENGTH, QUESTION, END] = [0, 1, 2, 3, 7];
/** Looks at a word before a thread sleeps: a pass asks again so soon that waking would take longer. */
const LOOKS = 1 << 15;
/** Milliseconds after which a thread is given up. */
const PATIENCE = 30_000;

/** Shared memory for a question, and then for its answer. */
class Mailbox {
  declare buffer: SharedArrayBuffer;
  declare words: Int32Array;
  declare bytes: Uint8Array;
  declare answer: Float64Array;

  constructor(buffer: SharedArrayBuffer) {
    this.buffer = buffer;
    this.words = new Int32Array(buffer, 0, HEAD / 4);
    this.bytes = new Uint8Array(buffer, HEAD, ROOM);
    /** A number that 32 bits do not hold. */
    this.answer = new Float64Array(buffer, HEAD - 8, 1);
  }

  /**
   * Waits until a word is another one than before.
   * @param limit milliseconds
   * @returns whether it is
   */
  changes(word: number, before: number, limit?: number): boolean {
    for (let look = 0; look < LOOKS; look++) if (Atomics.load(this.words, word) !== before) return true;
    // It may be woken by a count that it saw before.
    while (Atomics.load(this.words, word) === before) if (Atomics.wait(this.words, word, before, limit) === "timed-out") return false;
    return true;
  }

  /** Counts a word up and wakes waiting threads. */
  count(word: number) {
    Atomics.add(this.words, word, 1);
    Atomics.notify(this.words, word);
  }
}

/** Answers for as long as the worker lives. */
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

/** The others, as the engine's module wants them. */
export class Threads {
  room = ROOM;
  #boxes: Mailbox[] = [];

  declare requestWorker: () => Promise<StartedWorker>;
  declare module: WebAssembly.Module;
  declare warn: (reason: string) => void;

  /**
   * @param requestWorker asks the page for a worker
   * @param module the engine's
   * @param warn gets the reason why there are fewer threads than wanted
   */
  constructor(requestWorker: () => Promise<StartedWorker>, module: WebAssembly.Module, warn: (reason: string) => void) {
    this.requestWorker = requestWorker;
    this.module = module;
    this.warn = warn;
  }

  get others() {
    return this.#boxes.length;
  }

  /**
   * Starts as many as are wanted, where this place has them.
   * @param wanted this one included
   */
  async start(wanted?: number) {
    const threads = wanted ?? Math.min(navigator.hardwareConcurrency || 1, 4);
    if (threads < 2) return 0;
    if (typeof SharedArrayBuffer === "undefined" || typeof globalThis.postMessage !== "function") {
      if (wanted) this.warn("threads: only one, because this page is not cross-origin isolated, or its engine is shared");
      return 0;
    }
    const boxes = await Promise.allSettled(Array.from({ length: threads - 1 }, () => this.#begin()));
    for (const box of boxes) {
      if (box.status === "fulfilled") this.#boxes.push(box.value);
      else this.warn(`a thread of the CPU could not be started: ${box.reason?.message ?? box.reason}`);
    }
    return this.others;
  }

  async #begin() {
    const worker = await this.requestWorker();
    const { buffer } = new Mailbox(new SharedArrayBuffer(HEAD + ROOM));
    const started = new Promise((resolve, reject) => {
      worker.failed.then((reason) => reject(new Error(reason)));
      worker.port.onmessage = ({ data }) => (data.type === "started" ? resolve(undefined) : data.type === "error" && reject(new Error(data.error.message)));
    });
    worker.port.postMessage({ type: "share", buffer, module: this.module });
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

  /**
   * @param bytes become those that come with the answer
   * @returns the answer
   */
  answer(other: number, bytes: Uint8Array): number {
    const box = this.#boxes[other];
    const asked = Atomics.load(box.words, ASKED);
    // The worker breaks down with this, and the next call sets up another one.
    if (!box.changes(ANSWERED, asked - 1, PATIENCE)) throw new Error("a thread of the CPU does not answer any more");
    const answer = box.answer[0];
    // What is shared cannot be decoded.
    if (Number.isNaN(answer)) throw new Error(`a thread of the CPU broke down: ${new TextDecoder().decode(box.bytes.slice(0, box.words[LENGTH]))}`);
    bytes.set(box.bytes.subarray(0, bytes.length));
    return answer;
  }
}
