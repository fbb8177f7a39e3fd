/** A conversation with a model. */
import { badOption } from "./error.js";
import { streamOf } from "./queue.js";
import type { GenerateOptions, GenerationStream, Message } from "./api.js";
import type { Engine } from "./engine.js";

/** `messages` are earlier messages, for example a system message. The other options apply to all answers. */
export type ConversationOptions = { messages?: readonly Message[] } & Omit<GenerateOptions, "signal" | "onProgress">;

/** Options that choose how tokens are drawn. */
const SAMPLING = ["do_sample", "temperature", "top_k", "top_p", "min_p", "seed"] as const;

/**
 * Lets the model's makers choose how tokens are drawn, unless an option does: many small models repeat themselves if they always take the
 * likeliest token.
 */
const sampled = (options: GenerateOptions): GenerateOptions => (SAMPLING.some((name) => options[name] != null) ? options : { ...options, do_sample: "model" });

const BUSY = () => badOption("messages", "another turn", "one turn after the other: await the result of the one before, or abort it");

/** Returns an answer that fails before it begins. */
function refused(error: Error): GenerationStream {
  const result = Promise.reject(error);
  result.catch(() => {});
  return streamOf(result, () => ({ next: () => result }));
}

/**
 * Conversations of one engine may alternate: keys and values of the latest ones stay cached (`prompt_cache_bytes`). `messages` can be stored
 * as JSON and passed to another conversation.
 */
export class Conversation {
  /** @ignore Forbids Vue to wrap the conversation: proxies have no private fields. */
  __v_skip = true;
  #engine;
  #options;
  #isWriting = false;

  declare messages: Message[];

  /** Use `engine.chat(options)`. */
  constructor(engine: Engine, { messages = [], ...options }: ConversationOptions = {}) {
    this.#engine = engine;
    this.#options = options;
    this.messages = JSON.parse(JSON.stringify(messages));
  }

  /**
   * Adds a message of the user and generates the answer, as {@link Engine.generate} does, but with the sampling that the model's makers
   * recommend, if no option of sampling is given. The answer, even an aborted one, is added to the
   * messages at its end. Without an answer the user's message is removed.
   */
  send(message: string | Message, options?: GenerateOptions): GenerationStream {
    if (this.#isWriting) return refused(BUSY());
    this.messages.push(typeof message === "string" ? { role: "user", content: message } : message);
    return this.#answer(options, () => this.messages.pop());
  }

  /** Replaces the model's last answer. Without a new answer the last one stays. */
  regenerate(options?: GenerateOptions) {
    if (this.#isWriting) return refused(BUSY());
    const last = this.messages.at(-1);
    if (last?.role !== "assistant") return refused(badOption("messages", last?.role ?? "none", "an answer of the model at the end"));
    this.messages.pop();
    return this.#answer(options, () => this.messages.push(last));
  }

  /** Replaces a message of the user and removes all later messages. */
  edit(index: number, message: string | Message, options?: GenerateOptions) {
    if (this.#isWriting) return refused(BUSY());
    if (!(index in this.messages)) return refused(badOption("index", index, `0 to ${this.messages.length - 1}`));
    const gone = this.messages.splice(index);
    this.messages.push(typeof message === "string" ? { ...gone[0], content: message } : message);
    return this.#answer(options, () => this.messages.splice(index, 1, ...gone));
  }

  /** Returns a new conversation with the first `count` messages, by default all. */
  branch(count: number = this.messages.length) {
    return new Conversation(this.#engine, { ...this.#options, messages: this.messages.slice(0, count) });
  }

  /**
   * Saves the conversation in this browser (OPFS) in place of an earlier one of this name. `engine.chat.restore(name)` continues it. The
   * cached keys and values are saved too, for the same model on the same device. Fulfils with their number of tokens. Rejects with
   * `storage` if the browser stores nothing for this page.
   */
  async save(name: string) {
    if (this.#isWriting) throw BUSY();
    return this.#engine.saveChat(name, this.messages, this.#options);
  }

  #answer(options: GenerateOptions | undefined, undo: () => void): GenerationStream {
    this.#isWriting = true;
    // The engine refuses a function.
    const stream = this.#engine.generate(this.messages, typeof options === "function" ? options : sampled({ ...this.#options, ...options }));
    const keep = (content: string | undefined) => {
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
    // A caller that only iterates gets the error there.
    result.catch(() => {});
    return streamOf(result, () => stream[Symbol.asyncIterator]());
  }
}
