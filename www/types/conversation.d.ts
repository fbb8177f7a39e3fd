import type { GenerateOptions, GenerationStream, Message } from "./api.js";
import type { Engine } from "./engine.js";
export type ConversationOptions = {
    messages?: readonly Message[];
} & Omit<GenerateOptions, "signal" | "onProgress">;
/**
 * @import { GenerateOptions, GenerationStream, Message } from "./api.js"
 * @import { Engine } from "./engine.js"
 * @typedef {{ messages?: readonly Message[] } & Omit<GenerateOptions, "signal" | "onProgress">} ConversationOptions `messages` are what was
 *   said before: a system message, for example; the rest holds for every answer
 */
/**
 * Conversations of one engine may take turns: what is cached of the latest ones stays (`prompt_cache_bytes`), so that none is read
 * again. `messages` can be kept as JSON and given to another conversation.
 */
export declare class Conversation {
    #private;
    /** What was said, the oldest first. @type {Message[]} */
    messages: Message[];
    /** Use `engine.chat(options)`. @param {Engine} engine @param {ConversationOptions} [options] */
    constructor(engine: Engine, { messages, ...options }?: ConversationOptions);
    /**
     * The user says something, and the model answers. Where nothing comes of it, the message is taken back.
     * @param {string | Message} message
     * @param {GenerateOptions} [options] for this answer
     * @returns {GenerationStream} as of {@link Engine.generate}; at its end the answer is among the messages, as far as it came
     */
    send(message: string | Message, options?: GenerateOptions): GenerationStream;
    /** The model answers once more; where nothing comes of it, its last answer comes back. @param {GenerateOptions} [options] */
    regenerate(options?: GenerateOptions): GenerationStream;
    /**
     * The user says something else in place of the message with this index, and what came behind it goes.
     * @param {number} index @param {string | Message} message @param {GenerateOptions} [options]
     */
    edit(index: number, message: string | Message, options?: GenerateOptions): GenerationStream;
    /** Another conversation that begins with the first so many messages, all by default. @param {number} [count] */
    branch(count?: number): Conversation;
    /**
     * Saves the conversation in this browser (OPFS), in place of another one of that name; `engine.chat.restore(name)` goes on with it. Keys
     * and values come along, so that the same model on the same device does not read it again. Fulfils with how many tokens those are.
     * @param {string} name
     */
    save(name: string): Promise<number>;
}
