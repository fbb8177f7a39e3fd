/** A conversation with a model: what was said, and how it goes on. */
import { badOption } from "./error.js";
import type { GenerateOptions, GenerationStream, Message } from "./api.js";
import type { Engine } from "./engine.js";

/** `messages` are what was said before: a system message, for example; the rest holds for every answer */
export type ConversationOptions = { messages?: readonly Message[] } & Omit<GenerateOptions, "signal" | "onProgress">;

const BUSY = () => badOption("messages", "another turn", "one turn after the other: await the result of the one before, or abort it");

/** An answer that fails before it begins. */
function refused(error: Error): GenerationStream {
  const result = Promise.reject(error);
  result.catch(() => {});
  return { result, [Symbol.asyncIterator]: () => ({ next: () => result }) };
}

/**
 * Conversations of one engine may take turns: what is cached of the latest ones stays (`prompt_cache_bytes`), so that none is read
 * again. `messages` can be kept as JSON and given to another conversation.
 */
export class Conversation {
  /**
   * Vue's mark for objects that it must not wrap: private fields belong to the object itself.
   * @ignore
   */
  __v_skip = true;
  #engine;
  #options;
  #isWriting = false;

  declare messages: Message[];

  /** Use `engine.chat(options)`. */
  constructor(engine: Engine, { messages = [], ...options }: ConversationOptions = {}) {
    this.#engine = engine;
    this.#options = options;
    /** All messages, the oldest first. */
    this.messages = JSON.parse(JSON.stringify(messages));
  }

  /**
   * The user says something, and the model answers. Where nothing comes of it, the message is taken back.
   * @param options for this answer
   * @returns as of {@link Engine.generate}; at its end the answer is among the messages, as far as it came
   */
  send(message: string | Message, options?: GenerateOptions): GenerationStream {
    if (this.#isWriting) return refused(BUSY());
    this.messages.push(typeof message === "string" ? { role: "user", content: message } : message);
    return this.#answer(options, () => this.messages.pop());
  }

  /** The model answers once more; where nothing comes of it, its last answer comes back. */
  regenerate(options?: GenerateOptions) {
    if (this.#isWriting) return refused(BUSY());
    const last = this.messages.at(-1);
    if (last?.role !== "assistant") return refused(badOption("messages", last?.role ?? "none", "an answer of the model at the end"));
    this.messages.pop();
    return this.#answer(options, () => this.messages.push(last));
  }

  /** Replaces the message with this index by another one of the user, and removes all later ones. */
  edit(index: number, message: string | Message, options?: GenerateOptions) {
    if (this.#isWriting) return refused(BUSY());
    if (!(index in this.messages)) return refused(badOption("index", index, `0 to ${this.messages.length - 1}`));
    const gone = this.messages.splice(index);
    this.messages.push(typeof message === "string" ? { ...gone[0], content: message } : message);
    return this.#answer(options, () => this.messages.splice(index, 1, ...gone));
  }

  /** Returns another conversation that begins with the first `count` messages, all by default. */
  branch(count: number = this.messages.length) {
    return new Conversation(this.#engine, { ...this.#options, messages: this.messages.slice(0, count) });
  }

  /**
   * Saves the conversation in this browser (OPFS), in place of another one of that name; `engine.chat.restore(name)` goes on with it. Keys
   * and values come along, so that the same model on the same device does not read it again. Fulfils with how many tokens those are.
   * Rejects with `storage` if the browser keeps nothing for this page.
   */
  async save(name: string) {
    if (this.#isWriting) throw BUSY();
    return this.#engine.saveChat(name, this.messages, this.#options);
  }

  #answer(options: GenerateOptions | undefined, undo: () => void): GenerationStream {
    this.#isWriting = true;
    // A function has no options to spread: the engine refuses it.
    const stream = this.#engine.generate(this.messages, typeof options === "function" ? options : { ...this.#options, ...options });
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
    return { result, [Symbol.asyncIterator]: () => stream[Symbol.asyncIterator]() };
  }
}
