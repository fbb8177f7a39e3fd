import type { LanguageModelV4 } from "@ai-sdk/provider";
import type { Engine } from "./engine.js";
/**
 * @import { JSONObject, LanguageModelV4, LanguageModelV4CallOptions, LanguageModelV4Content, LanguageModelV4Message, LanguageModelV4StreamPart,
 *   LanguageModelV4ToolResultOutput, LanguageModelV4Usage, SharedV4Warning } from "@ai-sdk/provider"
 * @import { Message } from "./api.js"
 * @import { ChatCompletionChunk, ChatRequest, CompletionUsage } from "./chat.js"
 * @import { Engine } from "./engine.js"
 */
/**
 * For `generateText`, `streamText` and all else that takes a model. Options of foretoken's own go in
 * `providerOptions: { foretoken: { drafter: "lookup" } }`. What the engine cannot do is a warning of the call, and it goes on without.
 * @param {Engine | PromiseLike<Engine>} engine
 * @param {string} [modelId] what the model is called in telemetry
 * @returns {LanguageModelV4}
 */
export declare function languageModel(engine: Engine | PromiseLike<Engine>, modelId?: string): LanguageModelV4;
