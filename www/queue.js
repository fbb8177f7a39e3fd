/**
 * Items that wait for their readers, or readers that wait for items.
 * @template T
 */
export class Queue {
  /** @type {T[]} */
  #items = [];
  #ended = false;
  /** @type {unknown} */
  #error = null;
  /** @type {Set<(value?: unknown) => void>} */
  #waiting = new Set();

  #wake() {
    for (const wake of this.#waiting) wake();
    this.#waiting.clear();
  }

  /** @param {T} item of no interest after the end */
  push(item) {
    if (!this.#ended) this.#items.push(item);
    this.#wake();
  }

  /** Forgets what waits. */
  clear() {
    this.#items.length = 0;
  }

  /** Ends it, once. @param {unknown} [error] what a reader hears after the last item */
  end(error = null) {
    if (this.#ended) return;
    this.#ended = true;
    this.#error = error;
    this.#wake();
  }

  /**
   * @param {number} [within] milliseconds
   * @returns {Promise<T | undefined>} the next item; undefined at the end, and where none comes in that time
   */
  async shift(within) {
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
