/**
 * foretoken in a page: language models on the user's own GPU, made fast by lossless speculative decoding.
 * The engine runs in a worker of its own; this is its remote control. Importing it touches nothing: a server may.
 */
import { list, remove } from "./cache.js";
import { Conversation } from "./conversation.js";
import { ForetokenError } from "./error.js";
import type { Counters, DeviceInfo, EmbedOptions, GenerateOptions, GenerationStream, Inspection, LoadOptions, Memory, Message, Model, Prompt, Score, Stats, TemplateOption } from "./api.js";
import type { CreateCompletion, CreateEmbeddingResponse, EmbeddingRequest, RequestOptions } from "./chat.js";
import type { ConversationOptions } from "./conversation.js";
import type { SavedChatInfo } from "./saved.js";
import type { ToolFormat } from "./tools.js";
/**
 * @import { Counters, DeviceInfo, EmbedOptions, GenerateOptions, Generation, GenerationStream, Inspection, LoadOptions, Memory, Message, Model,
 *   Piece, PrefillProgress, Progress, Prompt, Score, Stats, TemplateOption, Token } from "./api.js"
 * @import { ChatRequest, CreateCompletion, CreateEmbeddingResponse, EmbeddingRequest, RequestOptions } from "./chat.js"
 * @import { ConversationOptions } from "./conversation.js"
 * @import { FromWorker, Loading, Method, Methods } from "./protocol.js"
 * @import { SavedChatInfo } from "./saved.js"
 * @import { Spawned } from "./spawn.js"
 * @import { ToolFormat } from "./tools.js"
 */
export { Conversation, ForetokenError };
/** A model, and the draft model that guesses for it, on the GPU. Calls are answered one after the other. */
export declare class Engine {
    #private;
    /**
     * `engine.chat(options)` begins a {@link Conversation}; `restore(name)` goes on with one that was saved in this browser, `list()`
     * and `delete(name)` are of these.
     *
     * OpenAI's chat completions: `create(body, { signal })` fulfils with a {@link ChatCompletion}, or with `stream: true`
     * with an async iterable of {@link ChatCompletionChunk}s, whose text begins when it is read and ends when its reader leaves.
     * Errors are those of {@link Engine.generate}.
     * @type {((options?: ConversationOptions) => Conversation) & {
     *   completions: { create: CreateCompletion }, restore: (name: string) => Promise<Conversation>,
     *   list: () => Promise<SavedChatInfo[]>, delete: (name: string) => Promise<boolean>,
     * }}
     */
    chat: ((options?: ConversationOptions) => Conversation) & {
        completions: {
            create: CreateCompletion;
        };
        restore: (name: string) => Promise<Conversation>;
        list: () => Promise<SavedChatInfo[]>;
        delete: (name: string) => Promise<boolean>;
    };
    /**
     * OpenAI's embeddings, as {@link Engine.embed} computes them.
     * @type {{ create: (body: EmbeddingRequest, request?: RequestOptions) => Promise<CreateEmbeddingResponse> }}
     */
    embeddings: {
        create: (body: EmbeddingRequest, request?: RequestOptions) => Promise<CreateEmbeddingResponse>;
    };
    /**
     * What is kept of the models that were downloaded. `delete` takes a model's name or URL, nothing for all of them; it is
     * false when there was none, or when a page is loading it just now.
     */
    static cache: {
        list: typeof list;
        delete: typeof remove;
    };
    /**
     * @private Use {@link Engine.load}.
     * @param {Loading} args
     * @param {((progress: Progress) => void) | undefined} onProgress
     * @param {(failed: (reason: string) => void) => Spawned} spawn starts a worker
     */
    private constructor();
    /**
     * Loads a model, and a draft model if one is named.
     *
     * Rejects with a {@link ForetokenError}: `webgpu-unavailable`, `gpu-blocked`, `out-of-gpu-memory`, `device-lost`;
     * `not-found`, `network`, `integrity`; `bad-config`, `bad-weights`, `bad-tokenizer`, `bad-template`,
     * `unsupported-architecture`; `bad-option`, `aborted`, `internal`.
     * @param {Model} model
     * @param {LoadOptions} [options]
     * @returns {Promise<Engine>}
     */
    static load(model: Model, options?: LoadOptions): Promise<Engine>;
    /**
     * What there is to know of a model before it is loaded, from its headers: of each file with weights, the first 8 MB are
     * downloaded, and kept for a load. Rejects as {@link Engine.load} does.
     * @param {Model} model
     * @param {Omit<LoadOptions, "assistant_model">} [options]
     * @returns {Promise<Inspection>}
     */
    static inspect(model: Model, options?: Omit<LoadOptions, "assistant_model">): Promise<Inspection>;
    /**
     * Continues a prompt, at once or behind the calls before. Iterate over the pieces, once, or await `result`, or both; leaving
     * the loop early ends the generation, and so does the signal. What nobody reads is written all the same.
     *
     * Both reject with a {@link ForetokenError}: `bad-option`, `bad-template`, `context-full`, `non-finite-logits`,
     * `device-lost`, `gpu-blocked`, `out-of-gpu-memory`, `aborted`, `internal`. The engine stays usable:
     * the next call sets up again what broke down, the GPU's device or the worker.
     * @param {Prompt} prompt
     * @param {GenerateOptions} [options]
     * @returns {GenerationStream}
     */
    generate(prompt: Prompt, options?: GenerateOptions): GenerationStream;
    /**
     * The embeddings of texts [hidden]: hidden states after the final norm, pooled. Not where several workers have the models
     * (`sp_degree`, `draft_device`). Rejects as {@link Engine.generate} does.
     * @param {string | readonly Prompt[]} texts one text, or a list of texts, chats or token ids
     * @param {EmbedOptions} [options]
     * @returns {Promise<Float32Array[]>} one each
     */
    embed(texts: string | readonly Prompt[], options?: EmbedOptions): Promise<Float32Array[]>;
    /**
     * How likely each continuation of a prompt is, by the model's logits as they are. The prompt is read once, and stays cached. Where
     * and how it rejects, {@link Engine.embed} says.
     * @param {Prompt} prompt
     * @param {readonly (string | readonly number[])[]} continuations texts, with the space before them, or token ids
     * @param {{ signal?: AbortSignal }} [options]
     * @returns {Promise<Score[]>} one each
     */
    score(prompt: Prompt, continuations: readonly (string | readonly number[])[], options?: {
        signal?: AbortSignal;
    }): Promise<Score[]>;
    /**
     * The tokens of a text, or of messages under the chat template, as `generate` would see them.
     * Rejects with `bad-option`, `bad-tokenizer` or `bad-template`.
     * @param {string | readonly Message[]} prompt
     * @param {Pick<GenerateOptions, TemplateOption>} [options]
     * @returns {Promise<number[]>} ids
     */
    tokenize(prompt: string | readonly Message[], options?: Pick<GenerateOptions, TemplateOption>): Promise<number[]>;
    /**
     * The text of some tokens. Rejects with `bad-option` or `bad-tokenizer`.
     * @param {readonly number[] | Uint32Array} ids
     * @param {{ skip_special_tokens?: boolean }} [options] `skip_special_tokens`: leave out end tokens and the like; true by
     *   default
     * @returns {Promise<string>}
     */
    detokenize(ids: readonly number[] | Uint32Array, options?: {
        skip_special_tokens?: boolean;
    }): Promise<string>;
    /**
     * What {@link Conversation.save} does.
     * @param {string} name @param {readonly Message[]} messages @param {object} options
     * @returns {Promise<number>} tokens that are not read again
     */
    saveChat(name: string, messages: readonly Message[], options: object): Promise<number>;
    /** Statistics of the last generation, under vLLM's names; null before the first. */
    get stats(): Stats | null;
    /** The GPU. */
    get device(): DeviceInfo;
    /** Bytes on the GPU, by model; `draft` is null without one. */
    get memory(): Memory;
    /** What a person should know of the loading: that nothing could be kept, for example. @returns {string[]} */
    get warnings(): string[];
    /** How the model's chat template writes calls of tools; null where that is not known. */
    get toolFormat(): ToolFormat | null;
    /**
     * What was asked of the GPU since loading began.
     * @returns {Promise<Counters>}
     */
    counters(): Promise<Counters>;
    /** Ends the worker and frees the GPU's memory. What still runs, and what is asked later, rejects with `aborted`. */
    dispose(): void;
}
