/** Asynchronous queue, and what is returned of a text that is being written. */
import { badOption } from "./error.js";
import type { Generation, GenerationStream, Piece } from "./api.js";

/** Returns the result of a text and its pieces. A `text` would be undefined before the end, so reading it throws. */
export function streamOf(result: Promise<Generation>, iterate: () => AsyncIterator<Piece, undefined>): GenerationStream {
  const get = () => {
    throw badOption("text", "of a running generation", "that of its result: (await engine.generate(prompt).result).text");
  };
  return Object.defineProperty({ result, [Symbol.asyncIterator]: iterate } as GenerationStream, "text", { get });
}

export class Queue<T> {
  #items: T[] = [];
  #ended = false;
  #error: unknown = null;
  #waiting: Set<(value?: unknown) => void> = new Set();

  #wake() {
    for (const wake of this.#waiting) wake();
    this.#waiting.clear();
  }

  /** Adds an item, unless the queue has ended. */
  push(item: T) {
    if (!this.#ended) this.#items.push(item);
    this.#wake();
  }

  clear() {
    this.#items.length = 0;
  }

  /** Ends the queue. @param error thrown to readers after the last item */
  end(error: unknown = null) {
    if (this.#ended) return;
    this.#ended = true;
    this.#error = error;
    this.#wake();
  }

  /** Returns the next item; undefined at the end, and after `within` milliseconds without one. */
  async shift(within?: number): Promise<T | undefined> {
    let late = false;
    const becomeLate = () => {
      late = true;
      this.#wake();
    };
    const timer = within === undefined ? undefined : setTimeout(becomeLate, within);
    while (!this.#items.length && !this.#ended && !late) await new Promise((wake) => this.#waiting.add(wake));
    clearTimeout(timer);
    if (!this.#items.length && this.#error) throw this.#error;
    return this.#items.shift();
  }
}
