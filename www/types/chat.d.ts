import type { GenerateOptions, Message, TextPart } from "./api.js";
import type { Engine } from "./engine.js";
import type { Tool, ToolCall, ToolCallDelta, ToolChoice } from "./tools.js";
export type CompletionUsage = {
    prompt_tokens: number;
    completion_tokens: number;
    total_tokens: number;
    prompt_tokens_details: {
        cached_tokens: number;
    };
    /**
     *   draft tokens
     */
    completion_tokens_details: {
        accepted_prediction_tokens: number;
        rejected_prediction_tokens: number;
    };
};
export type TopLogprob = {
    token: string;
    logprob: number;
    bytes: number[];
};
export type ChoiceLogprobs = {
    content: (TopLogprob & {
        top_logprobs: TopLogprob[];
    })[];
    refusal: null;
};
export type ChatCompletion = {
    id: string;
    object: "chat.completion";
    /**
     * Unix time in seconds
     */
    created: number;
    model: string;
    /**
     * `n` of them
     */
    choices: {
        index: number;
        message: {
            role: "assistant";
            content: string | null;
            tool_calls?: ToolCall[];
            refusal: null;
        };
        logprobs: ChoiceLogprobs | null;
        finish_reason: "stop" | "length" | "tool_calls";
    }[];
    usage: CompletionUsage;
};
export type ChatCompletionChunk = {
    /**
     * the same in all chunks
     */
    id: string;
    object: "chat.completion.chunk";
    /**
     * Unix time in seconds
     */
    created: number;
    model: string;
    /**
     * one, all chunks of a choice before those of the next; none in the chunk that carries `usage`
     */
    choices: {
        index: number;
        delta: {
            role?: "assistant";
            content?: string;
            tool_calls?: ToolCallDelta[];
        };
        logprobs: ChoiceLogprobs | null;
        finish_reason: "stop" | "length" | "tool_calls" | null;
    }[];
    /**
     * in the last chunk, with `stream_options: { include_usage: true }`
     */
    usage?: CompletionUsage;
};
export type ChatOptions = {
    messages: readonly Message[];
    /**
     * the answer repeats it
     */
    model?: string;
    /**
     * as `max_new_tokens`
     */
    max_tokens?: number | null;
    /**
     * the same; it comes first
     */
    max_completion_tokens?: number | null;
    stop?: string | readonly string[] | null;
    /**
     * above 0 it draws tokens at random; without it, or with 0, the most likely one is
     * taken. So do `top_p` and `seed`
     */
    temperature?: number | null;
    top_p?: number | null;
    response_format?: import("./api.js").ResponseFormat | null;
    /**
     * of the first choice; that of the next is one more
     */
    seed?: number | null;
    /**
     * choices, 1 to 128; more than one only where tokens are drawn at random. The prompt is read once
     */
    n?: number | null;
    presence_penalty?: number | null;
    frequency_penalty?: number | null;
    logprobs?: boolean | null;
    top_logprobs?: number | null;
    /**
     * the text that is
     * expected
     */
    prediction?: {
        type: "content";
        content: string | readonly TextPart[];
    } | string | null;
    stream_options?: {
        include_usage?: boolean;
    } | null;
    /**
     * functions that the model may call: its chat template describes them
     */
    tools?: readonly Tool[] | null;
    /**
     * `auto` by default; with `required`, or one named, the answer is a call whose arguments
     * fulfil the schema
     */
    tool_choice?: ToolChoice | null;
    /**
     * whether an answer may have several; true by default
     */
    parallel_tool_calls?: boolean | null;
};
export type NeutralOptions = {
    [name in keyof typeof NEUTRAL]?: (typeof NEUTRAL)[name][number] | null;
};
export type IgnoredOptions = {
    [name in (typeof IGNORED)[number]]?: unknown;
};
export type ChatRequest = ChatOptions & NeutralOptions & IgnoredOptions & Omit<GenerateOptions, "signal" | keyof ChatOptions>;
export type RequestOptions = {
    signal?: AbortSignal;
};
export type CreateCompletion = {
    (body: ChatRequest & {
        stream?: false | null;
    }, request?: RequestOptions): Promise<ChatCompletion>;
    (body: ChatRequest & {
        stream: true;
    }, request?: RequestOptions): Promise<AsyncIterable<ChatCompletionChunk>>;
    (body: ChatRequest & {
        stream?: boolean | null;
    }, request?: RequestOptions): Promise<ChatCompletion | AsyncIterable<ChatCompletionChunk>>;
};
/**
 * @import { GenerateOptions, GenerationStream, Message, Stats, TextPart, TokenLogprob } from "./api.js"
 * @import { Engine } from "./engine.js"
 * @import { Tool, ToolCall, ToolCallDelta, ToolChoice } from "./tools.js"
 */
/**
 * @typedef {object} CompletionUsage
 * @property {number} prompt_tokens
 * @property {number} completion_tokens
 * @property {number} total_tokens
 * @property {{ cached_tokens: number }} prompt_tokens_details
 * @property {{ accepted_prediction_tokens: number, rejected_prediction_tokens: number }} completion_tokens_details
 *   draft tokens
 *
 * @typedef {{ token: string, logprob: number, bytes: number[] }} TopLogprob
 * @typedef {{ content: (TopLogprob & { top_logprobs: TopLogprob[] })[], refusal: null }} ChoiceLogprobs of all tokens, an end token
 *   included, by the model's logits before penalties, temperature and filters
 *
 * @typedef {object} ChatCompletion
 * @property {string} id
 * @property {"chat.completion"} object
 * @property {number} created Unix time in seconds
 * @property {string} model
 * @property {{
 *   index: number,
 *   message: { role: "assistant", content: string | null, tool_calls?: ToolCall[], refusal: null },
 *   logprobs: ChoiceLogprobs | null,
 *   finish_reason: "stop" | "length" | "tool_calls",
 * }[]} choices `n` of them
 * @property {CompletionUsage} usage
 *
 * @typedef {object} ChatCompletionChunk
 * @property {string} id the same in all chunks
 * @property {"chat.completion.chunk"} object
 * @property {number} created Unix time in seconds
 * @property {string} model
 * @property {{
 *   index: number,
 *   delta: { role?: "assistant", content?: string, tool_calls?: ToolCallDelta[] },
 *   logprobs: ChoiceLogprobs | null,
 *   finish_reason: "stop" | "length" | "tool_calls" | null,
 * }[]} choices one, all chunks of a choice before those of the next; none in the chunk that carries `usage`
 * @property {CompletionUsage} [usage] in the last chunk, with `stream_options: { include_usage: true }`
 *
 * @typedef {object} ChatOptions OpenAI's names for what {@link GenerateOptions} has too
 * @property {readonly Message[]} messages
 * @property {string} [model] the answer repeats it
 * @property {number | null} [max_tokens] as `max_new_tokens`
 * @property {number | null} [max_completion_tokens] the same; it comes first
 * @property {string | readonly string[] | null} [stop]
 * @property {number | null} [temperature] above 0 it draws tokens at random; without it, or with 0, the most likely one is
 *   taken. So do `top_p` and `seed`
 * @property {number | null} [top_p]
 * @property {import("./api.js").ResponseFormat | null} [response_format]
 * @property {number | null} [seed] of the first choice; that of the next is one more
 * @property {number | null} [n] choices, 1 to 128; more than one only where tokens are drawn at random. The prompt is read once
 * @property {number | null} [presence_penalty]
 * @property {number | null} [frequency_penalty]
 * @property {boolean | null} [logprobs]
 * @property {number | null} [top_logprobs]
 * @property {{ type: "content", content: string | readonly TextPart[] } | string | null} [prediction] the text that is
 *   expected
 * @property {{ include_usage?: boolean } | null} [stream_options]
 * @property {readonly Tool[] | null} [tools] functions that the model may call: its chat template describes them
 * @property {ToolChoice | null} [tool_choice] `auto` by default; with `required`, or one named, the answer is a call whose arguments
 *   fulfil the schema
 * @property {boolean | null} [parallel_tool_calls] whether an answer may have several; true by default
 *
 * @typedef {{ [name in keyof typeof NEUTRAL]?: (typeof NEUTRAL)[name][number] | null }} NeutralOptions
 * @typedef {{ [name in (typeof IGNORED)[number]]?: unknown }} IgnoredOptions
 * @typedef {ChatOptions & NeutralOptions & IgnoredOptions & Omit<GenerateOptions, "signal" | keyof ChatOptions>} ChatRequest
 * @typedef {{ signal?: AbortSignal }} RequestOptions
 *
 * @typedef {{
 *   (body: ChatRequest & { stream?: false | null }, request?: RequestOptions): Promise<ChatCompletion>,
 *   (body: ChatRequest & { stream: true }, request?: RequestOptions): Promise<AsyncIterable<ChatCompletionChunk>>,
 *   (body: ChatRequest & { stream?: boolean | null }, request?: RequestOptions):
 *     Promise<ChatCompletion | AsyncIterable<ChatCompletionChunk>>,
 * }} CreateCompletion
 */
/** OpenAI's options that the engine does not have, with the values, beside null, that ask for nothing. */
declare const NEUTRAL: {
    readonly audio: readonly [];
    readonly function_call: readonly ["none", "auto"];
    readonly functions: readonly [readonly []];
    readonly modalities: readonly [readonly ["text"]];
    readonly reasoning_effort: readonly [];
    readonly verbosity: readonly ["medium"];
    readonly web_search_options: readonly [];
};
/** OpenAI's options that have no part in the text. */
declare const IGNORED: readonly ["metadata", "prompt_cache_key", "prompt_cache_retention", "safety_identifier", "service_tier", "store", "user"];
/**
 * @param {Engine} engine
 * @param {ChatRequest & { stream?: boolean | null }} body
 * @param {RequestOptions | null} [request] the signal is the second argument, as in OpenAI's library
 */
export declare function complete(engine: Engine, body: ChatRequest & {
    stream?: boolean | null;
}, request?: RequestOptions | null): Promise<AsyncGenerator<{
    choices: {
        index: number;
        delta: object;
        logprobs: null;
        finish_reason: null;
    }[];
} | {
    choices: never[];
    usage: CompletionUsage;
}, void, unknown> | {
    id: string;
    created: number;
    model: any;
    object: string;
    choices: {
        index: number;
        message: {
            role: string;
            content: string | null;
            tool_calls?: ToolCall[] | undefined;
            refusal: null;
        };
        logprobs: ChoiceLogprobs | null;
        finish_reason: string;
    }[];
    usage: CompletionUsage;
}>;
export type Reader = {
    read: (piece: string, isWhole?: boolean) => {
        content?: string;
        tool_calls?: ToolCallDelta[];
    }[];
    calls: ToolCall[];
};
export type EmbeddingRequest = {
    /**
     * texts or token ids
     */
    input: string | readonly string[] | readonly number[] | readonly (readonly number[])[];
    /**
     * the answer repeats it
     */
    model?: string | null;
    /**
     * `base64`: of the bytes of 32-bit floats
     */
    encoding_format?: "float" | "base64" | null;
    /**
     * has no part in the answer
     */
    user?: string | null;
};
export type CreateEmbeddingResponse = {
    object: "list";
    data: {
        object: "embedding";
        index: number;
        embedding: number[] | string;
    }[];
    model: string;
    usage: {
        prompt_tokens: number;
        total_tokens: number;
    };
};
/**
 * @typedef {object} EmbeddingRequest
 * @property {string | readonly string[] | readonly number[] | readonly (readonly number[])[]} input texts or token ids
 * @property {string | null} [model] the answer repeats it
 * @property {"float" | "base64" | null} [encoding_format] `base64`: of the bytes of 32-bit floats
 * @property {string | null} [user] has no part in the answer
 *
 * @typedef {object} CreateEmbeddingResponse
 * @property {"list"} object
 * @property {{ object: "embedding", index: number, embedding: number[] | string }[]} data
 * @property {string} model
 * @property {{ prompt_tokens: number, total_tokens: number }} usage
 */
/**
 * @param {Engine} engine
 * @param {EmbeddingRequest} body
 * @param {RequestOptions | null} [request]
 * @returns {Promise<CreateEmbeddingResponse>}
 */
export declare function embeddings(engine: Engine, body: EmbeddingRequest, request?: RequestOptions | null): Promise<CreateEmbeddingResponse>;
export {};
