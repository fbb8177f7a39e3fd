/** OpenAI's chat completions, by the engine. */
import { badOption, inWords } from "./error.js";
import { AnswerReader, calling } from "./tools.js";

/**
 * @import { GenerateOptions, GenerationStream, Message, Stats, TextPart } from "./api.js"
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
 * @typedef {object} ChatCompletion
 * @property {string} id
 * @property {"chat.completion"} object
 * @property {number} created Unix time in seconds
 * @property {string} model
 * @property {{
 *   index: number,
 *   message: { role: "assistant", content: string | null, tool_calls?: ToolCall[], refusal: null },
 *   logprobs: null,
 *   finish_reason: "stop" | "length" | "tool_calls",
 * }[]} choices one
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
 *   logprobs: null,
 *   finish_reason: "stop" | "length" | "tool_calls" | null,
 * }[]} choices one; none in the chunk that carries `usage`
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
 * @property {number | null} [seed]
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
const NEUTRAL = /** @type {const} */ ({
  audio: [],
  frequency_penalty: [0],
  function_call: ["none", "auto"],
  functions: [[]],
  logprobs: [false],
  modalities: [["text"]],
  n: [1],
  presence_penalty: [0],
  reasoning_effort: [],
  response_format: [{ type: "text" }],
  top_logprobs: [0],
  verbosity: ["medium"],
  web_search_options: [],
});
/** OpenAI's options that have no part in the text. */
const IGNORED = /** @type {const} */ (["metadata", "prompt_cache_key", "prompt_cache_retention", "safety_identifier", "service_tier", "store", "user"]);

/** What a request asks for: null stands for the default. @param {Record<string, any>} body */
function meant(body) {
  for (const [name, values] of Object.entries(NEUTRAL)) {
    const allowed = values.map((value) => JSON.stringify(value));
    if (body[name] != null && !allowed.includes(inWords(body[name]))) throw badOption(name, body[name], allowed.join(" or ") || "null");
  }
  /** @type {Set<string>} */
  const without = new Set([...Object.keys(NEUTRAL), ...IGNORED]);
  return Object.fromEntries(Object.entries(body).filter(([name, value]) => value != null && !without.has(name)));
}

/** The messages as they are now: a stream begins later, and a caller may go on with its list. @param {any} messages */
function copy(messages) {
  const isMessage = (/** @type {unknown} */ each) => typeof each === "object" && each !== null;
  try {
    // As they would travel to OpenAI: what a framework watches through proxies can be cloned no other way.
    if (Array.isArray(messages) && messages.length && messages.every(isMessage)) return JSON.parse(JSON.stringify(messages)).map(withObjects);
  } catch {
    // A BigInt, or a circle.
  }
  throw badOption("messages", messages, "a list of one { role, content } or more");
}

/** Templates want the arguments of calls as objects, where OpenAI's are JSON. @param {any} message */
function withObjects(message) {
  for (const { function: called } of Array.isArray(message.tool_calls) ? message.tool_calls : []) {
    try {
      if (typeof called?.arguments === "string") called.arguments = JSON.parse(called.arguments || "{}");
    } catch {
      throw badOption("messages", called.arguments, "as arguments of a call: JSON");
    }
  }
  return message;
}

/** @param {NonNullable<ChatOptions["prediction"]>} prediction */
function expected(prediction) {
  if (typeof prediction === "string") return prediction;
  const { content } = prediction;
  const parts = Array.isArray(content) ? content : [{ type: "text", text: content }];
  if (!parts.every((part) => part?.type === "text" && typeof part.text === "string")) throw badOption("prediction", prediction, "a text, or { type, content } of texts");
  return parts.map(({ text }) => text).join("");
}

/**
 * @param {Engine} engine
 * @param {ChatRequest & { stream?: boolean | null }} body
 * @param {RequestOptions | null} [request] the signal is the second argument, as in OpenAI's library
 */
export async function complete(engine, body, request) {
  const { messages, model = "foretoken", stream = false, stream_options, ...rest } = meant(body ?? {});
  const { max_tokens, max_completion_tokens = max_tokens, stop, temperature, prediction, tool_choice, parallel_tool_calls, ...others } = rest;
  const prompt = copy(messages);
  /** @type {GenerateOptions} */
  const options = { signal: request?.signal, ...others };
  // Temperature 0 asks for what greedy decoding does.
  options.do_sample ??= temperature === undefined ? "top_p" in rest || "seed" in rest : temperature !== 0;
  if (temperature !== undefined && (temperature !== 0 || options.do_sample)) options.temperature = temperature;
  const tools = calling({ tools: rest.tools, tool_choice, parallel_tool_calls }, engine.toolFormat);
  if (tool_choice === "none") delete options.tools;
  // What marks a call is a special token of many models.
  if (tools) options.skip_special_tokens = false;
  if (tools?.response_format) options.response_format = tools.response_format;
  const reader = tools && new AnswerReader(tools.format, tools.names, tools.most);
  if (prediction !== undefined) options.prediction = expected(prediction);
  if (max_completion_tokens !== undefined) options.max_new_tokens = max_completion_tokens;
  if (stop !== undefined) options.stop = [stop].flat();
  const head = { id: `chatcmpl-${crypto.randomUUID()}`, created: Math.floor(Date.now() / 1000), model };
  const generate = () => engine.generate(prompt, options);
  if (stream) return chunks(generate, { ...head, object: "chat.completion.chunk" }, reader, stream_options?.include_usage);
  const { text, finish_reason: ended, stats } = await generate().result;
  const content = reader ? reader.read(text, true).map(({ content = "" }) => content).join("") : text;
  const { calls: tool_calls = [] } = reader ?? {};
  const message = { role: "assistant", content: content || tool_calls.length === 0 ? content : null, ...(tool_calls.length && { tool_calls }), refusal: null };
  const finish_reason = finish(ended, reader);
  return { ...head, object: "chat.completion", choices: [{ index: 0, message, logprobs: null, finish_reason }], usage: usage(stats) };
}

/** @param {string} reason @param {AnswerReader | null} reader */
const finish = (reason, reader) => (reason === "stop" && reader?.calls.length ? "tool_calls" : reason);

/**
 * @param {() => GenerationStream} generate not called before somebody reads
 * @param {object} head
 * @param {AnswerReader | null} reader
 * @param {boolean} [includeUsage]
 */
async function* chunks(generate, head, reader, includeUsage) {
  const chunk = (/** @type {object} */ delta, /** @type {string | null} */ finish_reason = null) => ({ ...head, choices: [{ index: 0, delta, logprobs: null, finish_reason }] });
  yield chunk({ role: "assistant", content: "" });
  const run = generate();
  for await (const { text } of run) {
    if (!text) continue;
    if (reader) yield* reader.read(text).map((delta) => chunk(delta));
    else yield chunk({ content: text });
  }
  const { finish_reason, stats } = await run.result;
  if (reader) yield* reader.read("", true).map((delta) => chunk(delta));
  yield chunk({}, finish(finish_reason, reader));
  if (includeUsage) yield { ...head, choices: [], usage: usage(stats) };
}

/** @param {Stats} stats @returns {CompletionUsage} */
function usage(stats) {
  const { num_prompt_tokens: prompt_tokens, num_emitted_tokens: completion_tokens, num_cached_tokens: cached_tokens } = stats;
  const accepted_prediction_tokens = stats.num_accepted_draft_tokens;
  const rejected_prediction_tokens = stats.num_draft_tokens - accepted_prediction_tokens;
  return {
    prompt_tokens,
    completion_tokens,
    total_tokens: prompt_tokens + completion_tokens,
    prompt_tokens_details: { cached_tokens },
    completion_tokens_details: { accepted_prediction_tokens, rejected_prediction_tokens },
  };
}
