/** OpenAI's chat completions, by the engine. */
import { ForetokenError } from "./engine.js";

/**
 * @typedef {import("./engine.js").Engine} Engine
 * @typedef {import("./engine.js").GenerateOptions} GenerateOptions
 * @typedef {import("./engine.js").GenerationStream} GenerationStream
 * @typedef {import("./engine.js").Stats} Stats
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
 * @typedef {object} ChatMessage
 * @property {string} role
 * @property {string | readonly { type: "text", text: string }[]} content
 *
 * @typedef {object} ChatOptions OpenAI's names for what {@link GenerateOptions} has too
 * @property {readonly ChatMessage[]} messages
 * @property {string} [model] the answer repeats it
 * @property {number | null} [max_tokens] as `max_new_tokens`
 * @property {number | null} [max_completion_tokens] the same; it comes first
 * @property {string | readonly string[] | null} [stop]
 * @property {number | null} [temperature] above 0 it draws tokens at random; without it, or with 0, the most likely one is
 *   taken. So do `top_p` and `seed`
 * @property {number | null} [top_p]
 * @property {number | null} [seed]
 * @property {{ type: "content", content: string | readonly { type: "text", text: string }[] } | string | null} [prediction]
 *   the text that is expected
 * @property {1} [n]
 * @property {{ include_usage?: boolean } | null} [stream_options]
 * @property {string} [user] ignored
 *
 * @typedef {ChatOptions & Omit<GenerateOptions, "stop" | "signal" | keyof ChatOptions>} ChatRequest
 * @typedef {{ signal?: AbortSignal }} RequestOptions
 *
 * @typedef {{
 *   (body: ChatRequest & { stream?: false | null }, request?: RequestOptions): Promise<ChatCompletion>,
 *   (body: ChatRequest & { stream: true }, request?: RequestOptions): Promise<AsyncIterable<ChatCompletionChunk>>,
 *   (body: ChatRequest & { stream?: boolean | null }, request?: RequestOptions):
 *     Promise<ChatCompletion | AsyncIterable<ChatCompletionChunk>>,
 * }} CreateCompletion
 */

/** @param {string | readonly { type: "text", text: string }[]} content */
const plain = (content) => (Array.isArray(content) ? content.map(({ text }) => text).join("") : /** @type {string} */ (content));

/**
 * @param {Engine} engine
 * @param {ChatRequest & { stream?: boolean | null }} body
 * @param {RequestOptions} [request] the signal is the second argument, as in OpenAI's library
 */
export async function complete(engine, body, { signal } = {}) {
  if (!Array.isArray(body?.messages)) {
    const message = "messages: this value is not allowed; allowed: a list of { role, content }";
    throw new ForetokenError({ code: "bad-option", message, detail: { option: "messages" } });
  }
  const { messages, model = "foretoken", stream = false, stream_options, n = 1, user, ...rest } = body;
  const { max_tokens, max_completion_tokens = max_tokens, stop, temperature, top_p, seed, prediction, ...others } = rest;
  /** @type {GenerateOptions} */
  const options = others;
  if (n !== 1) throw new ForetokenError({ code: "bad-option", message: `n: ${n} is not allowed; allowed: 1`, detail: { option: "n" } });
  // Temperature 0 asks for what greedy decoding does.
  const draws = temperature == null ? top_p != null || seed != null : temperature !== 0;
  options.do_sample ??= draws;
  if (temperature) options.temperature = temperature;
  if (top_p != null) options.top_p = top_p;
  if (seed != null) options.seed = seed;
  if (prediction != null) options.prediction = typeof prediction === "string" ? prediction : plain(prediction.content);
  if (max_completion_tokens != null) options.max_new_tokens = max_completion_tokens;
  if (stop != null) options.stop = [stop].flat();
  const prompt = messages.map(({ role, content }) => ({
    role,
    content: plain(content),
  }));
  const run = engine.generate(prompt, { ...options, signal });
  const head = { id: `chatcmpl-${crypto.randomUUID()}`, created: Math.floor(Date.now() / 1000), model };
  if (stream) return chunks(run, { ...head, object: "chat.completion.chunk" }, stream_options?.include_usage);
  const { text, finish_reason, stats } = await run.result;
  const message = { role: "assistant", content: text, refusal: null };
  return { ...head, object: "chat.completion", choices: [{ index: 0, message, logprobs: null, finish_reason }], usage: usage(stats) };
}

/**
 * @param {GenerationStream} run
 * @param {object} head
 * @param {boolean} [includeUsage]
 */
async function* chunks(run, head, includeUsage) {
  const chunk = (/** @type {object} */ delta, /** @type {string | null} */ finish_reason = null) => ({ ...head, choices: [{ index: 0, delta, logprobs: null, finish_reason }] });
  yield chunk({ role: "assistant", content: "" });
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
