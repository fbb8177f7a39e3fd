/** A conversation with a model: what was said, and how it goes on. */
import { badOption } from "./error.js";

/**
 * @import { GenerateOptions, GenerationStream, Message } from "./api.js"
 * @import { Engine } from "./engine.js"
 * @typedef {{ messages?: readonly Message[] } & Omit<GenerateOptions, "signal" | "onProgress">} ConversationOptions `messages` are what was
 *   said before: a system message, for example; the rest holds for every answer
 */

const BUSY = () => badOption("messages", "another turn", "one turn after the other: await the result of the one before, or abort it");

/** An answer that fails before it begins. @param {Error} error @returns {GenerationStream} */
function refused(error) {
  const result = Promise.reject(error);
  result.catch(() => {});
  return { result, [Symbol.asyncIterator]: () => ({ next: () => result }) };
}

/**
 * Conversations of one engine may take turns: what is cached of the latest ones stays (`prompt_cache_bytes`), so that none is read
 * again. `messages` can be kept as JSON and given to another conversation.
 */
export class Conversation {
  /** Vue's mark for objects that it must not wrap: private fields belong to the object itself. @ignore */
  __v_skip = true;
  #engine;
  #options;
  #isWriting = false;

  /** Use `engine.chat(options)`. @param {Engine} engine @param {ConversationOptions} [options] */
  constructor(engine, { messages = [], ...options } = {}) {
    this.#engine = engine;
    this.#options = options;
    /** What was said, the oldest first. @type {Message[]} */
    this.messages = JSON.parse(JSON.stringify(messages));
  }

  /**
   * The user says something, and the model answers. Where nothing comes of it, the message is taken back.
   * @param {string | Message} message
   * @param {GenerateOptions} [options] for this answer
   * @returns {GenerationStream} as of {@link Engine.generate}; at its end the answer is among the messages, as far as it came
   */
  send(message, options) {
    if (this.#isWriting) return refused(BUSY());
    this.messages.push(typeof message === "string" ? { role: "user", content: message } : message);
    return this.#answer(options, () => this.messages.pop());
  }

  /** The model answers once more; where nothing comes of it, its last answer comes back. @param {GenerateOptions} [options] */
  regenerate(options) {
    if (this.#isWriting) return refused(BUSY());
    const last = this.messages.at(-1);
    if (last?.role !== "assistant") return refused(badOption("messages", last?.role ?? "none", "an answer of the model at the end"));
    this.messages.pop();
    return this.#answer(options, () => this.messages.push(last));
  }

  /**
   * The user says something else in place of the message with this index, and what came behind it goes.
   * @param {number} index @param {string | Message} message @param {GenerateOptions} [options]
   */
  edit(index, message, options) {
    if (this.#isWriting) return refused(BUSY());
    if (!(index in this.messages)) return refused(badOption("index", index, `0 to ${this.messages.length - 1}`));
    const gone = this.messages.splice(index);
    this.messages.push(typeof message === "string" ? { ...gone[0], content: message } : message);
    return this.#answer(options, () => this.messages.splice(index, 1, ...gone));
  }

  /** Another conversation that begins with the first so many messages, all by default. @param {number} [count] */
  branch(count = this.messages.length) {
    return new Conversation(this.#engine, { ...this.#options, messages: this.messages.slice(0, count) });
  }

  /**
   * Saves the conversation in this browser (OPFS), in place of another one of that name; `engine.chat.restore(name)` goes on with it. Keys
   * and values come along, so that the same model on the same device does not read it again. Fulfils with how many tokens those are.
   * Rejects with `storage` if the browser keeps nothing for this page.
   * @param {string} name
   */
  async save(name) {
    if (this.#isWriting) throw BUSY();
    return this.#engine.saveChat(name, this.messages, this.#options);
  }

  /** @param {GenerateOptions | undefined} options @param {() => void} undo @returns {GenerationStream} */
  #answer(options, undo) {
    this.#isWriting = true;
    // A function has no options to spread: the engine refuses it.
    const stream = this.#engine.generate(this.messages, typeof options === "function" ? options : { ...this.#options, ...options });
    const keep = (/** @type {string | undefined} */ content) => {
      this.#isWriting = false;
      if (content) this.messages.push({ role: "assistant", content });
      else undo();
    };
    const result = stream.result.then(
      (generation) => {
        keep(generation.text);
        return generation;
      },
      (error) => {
        keep(error.detail?.text);
        throw error;
      },
    );
    // Whoever only iterates hears of it there.
    result.catch(() => {});
    return { result, [Symbol.asyncIterator]: () => stream[Symbol.asyncIterator]() };
  }
}
