/**
 * Items that wait for their reader, or a reader that waits for items.
 * @template T
 */
export class Queue {
  /** @type {T[]} */
  #items = [];
  #ended = false;
  /** @type {unknown} */
  #error = null;
  /** @type {(value?: unknown) => void} */
  #wake = () => {};

  /** @param {T} item */
  push(item) {
    this.#items.push(item);
    this.#wake();
  }

  /** Forgets what waits. */
  clear() {
    this.#items.length = 0;
  }

  /** @param {unknown} [error] */
  end(error = null) {
    this.#ended = true;
    this.#error = error;
    this.#wake();
  }

  /** @returns {Promise<T | undefined>} the next item; undefined at the end */
  async shift() {
    while (!this.#items.length && !this.#ended) await new Promise((wake) => (this.#wake = wake));
    if (!this.#items.length && this.#error) throw this.#error;
    return this.#items.shift();
  }
}
