/** OpenAI's chat completions, by the engine. */
import { badOption, inWords } from "./error.js";

/**
 * @typedef {import("./engine.js").Engine} Engine
 * @typedef {import("./engine.js").GenerateOptions} GenerateOptions
 * @typedef {import("./engine.js").GenerationStream} GenerationStream
 * @typedef {import("./engine.js").Message} Message
 * @typedef {import("./engine.js").Stats} Stats
 * @typedef {import("./engine.js").TextPart} TextPart
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
 *   message: { role: "assistant", content: string, refusal: null },
 *   logprobs: null,
 *   finish_reason: "stop" | "length",
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
 *   delta: { role?: "assistant", content?: string },
 *   logprobs: null,
 *   finish_reason: "stop" | "length" | null,
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
 * @property {import("./engine.js").ResponseFormat | null} [response_format]
 * @property {number | null} [seed]
 * @property {{ type: "content", content: string | readonly TextPart[] } | string | null} [prediction] the text that is
 *   expected
 * @property {{ include_usage?: boolean } | null} [stream_options]
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
  tool_choice: ["none", "auto"],
  top_logprobs: [0],
  verbosity: ["medium"],
  web_search_options: [],
});
/** OpenAI's options that have no part in the text. */
const IGNORED = /** @type {const} */ (["metadata", "parallel_tool_calls", "prompt_cache_key", "prompt_cache_retention", "safety_identifier", "service_tier", "store", "user"]);

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
    if (Array.isArray(messages) && messages.length && messages.every(isMessage)) return JSON.parse(JSON.stringify(messages));
  } catch {
    // A BigInt, or a circle.
  }
  throw badOption("messages", messages, "a list of one { role, content } or more");
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
  const { max_tokens, max_completion_tokens = max_tokens, stop, temperature, prediction, ...others } = rest;
  const prompt = copy(messages);
  /** @type {GenerateOptions} */
  const options = { signal: request?.signal, ...others };
  // Temperature 0 asks for what greedy decoding does.
  options.do_sample ??= temperature === undefined ? "top_p" in rest || "seed" in rest : temperature !== 0;
  if (temperature !== undefined && (temperature !== 0 || options.do_sample)) options.temperature = temperature;
  // Otherwise the model may call them, in its own words.
  if (body.tool_choice === "none") delete options.tools;
  if (prediction !== undefined) options.prediction = expected(prediction);
  if (max_completion_tokens !== undefined) options.max_new_tokens = max_completion_tokens;
  if (stop !== undefined) options.stop = [stop].flat();
  const head = { id: `chatcmpl-${crypto.randomUUID()}`, created: Math.floor(Date.now() / 1000), model };
  const generate = () => engine.generate(prompt, options);
  if (stream) return chunks(generate, { ...head, object: "chat.completion.chunk" }, stream_options?.include_usage);
  const { text, finish_reason, stats } = await generate().result;
  const message = { role: "assistant", content: text, refusal: null };
  return { ...head, object: "chat.completion", choices: [{ index: 0, message, logprobs: null, finish_reason }], usage: usage(stats) };
}

/**
 * @param {() => GenerationStream} generate not called before somebody reads
 * @param {object} head
 * @param {boolean} [includeUsage]
 */
async function* chunks(generate, head, includeUsage) {
  const chunk = (/** @type {object} */ delta, /** @type {string | null} */ finish_reason = null) => ({ ...head, choices: [{ index: 0, delta, logprobs: null, finish_reason }] });
  yield chunk({ role: "assistant", content: "" });
  const run = generate();
  for await (const { text } of run) if (text) yield chunk({ content: text });
  const { finish_reason, stats } = await run.result;
  yield chunk({}, finish_reason);
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
