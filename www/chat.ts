/** OpenAI's chat completions and embeddings. */
import { badOption, inWords, onDemand } from "./error.js";
import type { GenerateOptions, GenerationStream, Message, Stats, TextPart, TokenLogprob } from "./api.js";
import type { Engine } from "./engine.js";
import type { Tool, ToolCall, ToolCallDelta, ToolChoice } from "./tools.js";

export type CompletionUsage = {
  prompt_tokens: number;
  completion_tokens: number;
  total_tokens: number;
  prompt_tokens_details: { cached_tokens: number };
  /** draft tokens */
  completion_tokens_details: { accepted_prediction_tokens: number; rejected_prediction_tokens: number };
};

export type TopLogprob = { token: string; logprob: number; bytes: number[] };

/** of all tokens, an end token included, by the model's logits before penalties, temperature and filters */
export type ChoiceLogprobs = { content: (TopLogprob & { top_logprobs: TopLogprob[] })[]; refusal: null };

export type ChatCompletion = {
  id: string;
  object: "chat.completion";
  /** Unix time in seconds */
  created: number;
  model: string;
  /** `n` of them */
  choices: {
    index: number;
    message: {
      role: "assistant";
      content: string | null;
      /** the model's thoughts before its answer */
      reasoning_content?: string;
      tool_calls?: ToolCall[];
      refusal: null;
    };
    logprobs: ChoiceLogprobs | null;
    finish_reason: "stop" | "length" | "tool_calls";
  }[];
  usage: CompletionUsage;
};

export type ChatCompletionChunk = {
  /** the same in all chunks */
  id: string;
  object: "chat.completion.chunk";
  /** Unix time in seconds */
  created: number;
  model: string;
  /** one, all chunks of a choice before those of the next; none in the chunk that carries `usage` */
  choices: {
    index: number;
    delta: { role?: "assistant"; content?: string; reasoning_content?: string; tool_calls?: ToolCallDelta[] };
    logprobs: ChoiceLogprobs | null;
    finish_reason: "stop" | "length" | "tool_calls" | null;
  }[];
  /** in the last chunk, with `stream_options: { include_usage: true }` */
  usage?: CompletionUsage;
};

/** OpenAI's names for what {@link GenerateOptions} has too */
export type ChatOptions = {
  messages: readonly Message[];
  /** the answer repeats it */
  model?: string;
  /** as `max_new_tokens` */
  max_tokens?: number | null;
  /** the same; it comes first */
  max_completion_tokens?: number | null;
  stop?: string | readonly string[] | null;
  /** above 0 it draws tokens at random; 0 takes the most likely ones */
  temperature?: number | null;
  /** without a temperature it draws tokens at random, as `seed` does */
  top_p?: number | null;
  response_format?: import("./api.js").ResponseFormat | null;
  /** of the first choice; that of the next is one more */
  seed?: number | null;
  /** choices, 1 to 128; more than one only where tokens are drawn at random. The prompt is read once */
  n?: number | null;
  presence_penalty?: number | null;
  frequency_penalty?: number | null;
  logprobs?: boolean | null;
  top_logprobs?: number | null;
  /** the text that is expected */
  prediction?: { type: "content"; content: string | readonly TextPart[] } | string | null;
  stream_options?: { include_usage?: boolean } | null;
  /** functions that the model may call: its chat template describes them */
  tools?: readonly Tool[] | null;
  /** `auto` by default; with `required`, or one named, the answer is a call whose arguments fulfil the schema */
  tool_choice?: ToolChoice | null;
  /** whether an answer may have several; true by default */
  parallel_tool_calls?: boolean | null;
  /** how long gpt-oss thinks; other models have variables of their templates for it, given as `chat_template_kwargs` */
  reasoning_effort?: "low" | "medium" | "high" | null;
};

type NeutralOptions = { [name in keyof typeof NEUTRAL]?: (typeof NEUTRAL)[name][number] | null };

type IgnoredOptions = { [name in (typeof IGNORED)[number]]?: unknown };

export type ChatRequest = ChatOptions & NeutralOptions & IgnoredOptions & Omit<GenerateOptions, "signal" | keyof ChatOptions>;

export type RequestOptions = { signal?: AbortSignal };

export type CreateCompletion = {
  (body: ChatRequest & { stream?: false | null }, request?: RequestOptions): Promise<ChatCompletion>;
  (body: ChatRequest & { stream: true }, request?: RequestOptions): Promise<AsyncIterable<ChatCompletionChunk>>;
  (body: ChatRequest & { stream?: boolean | null }, request?: RequestOptions): Promise<ChatCompletion | AsyncIterable<ChatCompletionChunk>>;
};

/** OpenAI's options that the engine does not have, with the values, beside null, that ask for nothing. */
const NEUTRAL = {
  audio: [],
  function_call: ["none", "auto"],
  functions: [[]],
  modalities: [["text"]],
  verbosity: ["medium"],
  web_search_options: [],
} as const;
/** OpenAI's options that have no part in the text. */
const IGNORED = ["metadata", "prompt_cache_key", "prompt_cache_retention", "safety_identifier", "service_tier", "store", "user"] as const;

/** Returns true if these options draw tokens at random, by the engine's rule. */
export function draws({ do_sample = "auto", temperature, top_k, top_p, min_p, seed }: Record<string, any>) {
  if (do_sample !== "auto") return !!do_sample;
  return temperature === undefined ? [top_k, top_p, min_p, seed].some((value) => value !== undefined) : temperature !== 0;
}

/** Returns the options of a request that are not null. */
function meant(body: Record<string, any>) {
  for (const [name, values] of Object.entries(NEUTRAL)) {
    const allowed = values.map((value) => JSON.stringify(value));
    if (body[name] != null && !allowed.includes(inWords(body[name]))) throw badOption(name, body[name], allowed.join(" or ") || "null");
  }
  const without: Set<string> = new Set([...Object.keys(NEUTRAL), ...IGNORED]);
  return Object.fromEntries(Object.entries(body).filter(([name, value]) => value != null && !without.has(name)));
}

/** Copies messages, because a stream begins later. */
function copy(messages: any) {
  const isMessage = (each: unknown) => typeof each === "object" && each !== null;
  let copied: any;
  try {
    // JSON also copies the proxies of frameworks.
    if (Array.isArray(messages) && messages.length && messages.every(isMessage)) copied = JSON.parse(JSON.stringify(messages));
  } catch {
    // A BigInt or a cycle.
  }
  if (!copied) throw badOption("messages", messages, "a list of one { role, content } or more");
  return copied;
}

function expected(prediction: NonNullable<ChatOptions["prediction"]>) {
  if (typeof prediction === "string") return prediction;
  const { content } = prediction;
  const parts = Array.isArray(content) ? content : [{ type: "text", text: content }];
  if (!parts.every((part) => part?.type === "text" && typeof part.text === "string"))
    throw badOption("prediction", prediction, "a text, or { type, content } of texts");
  return parts.map(({ text }) => text).join("");
}

/** Returns the variables of the chat template that set the effort. */
function effort({ reasoningFormat }: Engine, value: string, variables?: Readonly<Record<string, unknown>>) {
  const levels = reasoningFormat === "harmony" ? ["low", "medium", "high"] : [];
  if (!levels.includes(value)) throw badOption("reasoning_effort", value, levels.join(" or ") || "null; see chat_template_kwargs");
  return { reasoning_effort: value, ...variables };
}

/** @param request the signal is the second argument, as in OpenAI's library */
export async function complete(engine: Engine, body: ChatRequest & { stream?: boolean | null }, request?: RequestOptions | null) {
  const { messages, model = "foretoken", stream = false, stream_options, n = 1, ...rest } = meant(body ?? {});
  const { max_tokens, max_completion_tokens = max_tokens, stop, prediction, tool_choice, parallel_tool_calls, reasoning_effort, ...others } = rest;
  const prompt = copy(messages);
  const options: GenerateOptions = { signal: request?.signal, ...others };
  const toolbox = rest.tools !== undefined || tool_choice !== undefined ? await onDemand(import("./tools.js")) : null;
  const marks = !toolbox || ["auto", "none", undefined].includes(tool_choice) ? undefined : await toolbox.marksOf(engine);
  const tools = toolbox?.calling({ tools: rest.tools, tool_choice, parallel_tool_calls }, engine.toolFormat, marks);
  if (tool_choice === "none") delete options.tools;
  const { reasoningFormat } = engine;
  const answers = tools || (reasoningFormat && options.skip_special_tokens === undefined) ? await onDemand(import("./answers.js")) : null;
  // The marks of calls and thoughts may be special tokens.
  if (answers) options.skip_special_tokens = false;
  if (tools?.response_format) options.response_format = tools.response_format;
  const { format: toolFormat = null, tools: known = {}, most } = tools ?? {};
  // A grammar leaves no room for thoughts.
  const isOpen = reasoningFormat === "think" && !!answers && !options.response_format && (await answers.endsInThought(engine, prompt, options));
  const newReader = () => (answers ? new answers.AnswerReader({ toolFormat, reasoningFormat, isOpen, tools: known, most }) : AS_IT_IS);
  if (prediction !== undefined) options.prediction = expected(prediction);
  if (reasoning_effort !== undefined) options.chat_template_kwargs = effort(engine, reasoning_effort, options.chat_template_kwargs);
  if (max_completion_tokens !== undefined) options.max_new_tokens = max_completion_tokens;
  if (stop !== undefined) options.stop = [stop].flat();
  const head = { id: `chatcmpl-${crypto.getRandomValues(new Uint32Array(4)).join("")}`, created: Math.floor(Date.now() / 1000), model };
  const choosable = draws(options) ? 128 : 1;
  if (!Number.isInteger(n) || n < 1 || n > choosable)
    throw badOption("n", n, choosable > 1 ? "1 to 128" : "1, where no tokens are drawn at random: the most likely text is only one");
  const { seed } = options;
  const seeded = (index: number) => (index && seed !== undefined ? { ...options, seed: Number(seed) + index } : options);
  // All at once, so that no other prompt is read between them.
  const generate = () => Array.from({ length: n }, (_, index) => engine.generate(prompt, seeded(index)));
  if (stream) return chunks(generate, { ...head, object: "chat.completion.chunk" }, newReader, stream_options?.include_usage);
  const generations = await Promise.all(generate().map(({ result }) => result));
  const choices = generations.map(({ text, logprobs, finish_reason }, index) => {
    const reader = newReader();
    const deltas = reader.read(text, true);
    const joined = (key: "content" | "reasoning_content") => deltas.map(({ [key]: part = "" }) => part).join("");
    const [content, reasoning_content] = [joined("content"), joined("reasoning_content")];
    const { calls } = reader;
    const message = {
      role: "assistant",
      content: content || !calls.length ? content : null,
      ...(reasoning_content && { reasoning_content }),
      ...(calls.length && { tool_calls: calls }),
      refusal: null,
    };
    return { index, message, logprobs: told(logprobs), finish_reason: finish(finish_reason, calls) };
  });
  return { ...head, object: "chat.completion", choices, usage: usage(generations.map(({ stats }) => stats)) };
}

function told(logprobs?: TokenLogprob[]): ChoiceLogprobs | null {
  if (!logprobs?.length) return null;
  const one = ({ token, logprob, bytes }: TokenLogprob) => ({ token, logprob, bytes });
  return { content: logprobs.map((each) => ({ ...one(each), top_logprobs: (each.top_logprobs ?? []).map(one) })), refusal: null };
}

/** Returns a reader that separates thoughts, content and calls of tools. */
type Reader = {
  read: (piece: string, isWhole?: boolean) => { content?: string; reasoning_content?: string; tool_calls?: ToolCallDelta[] }[];
  calls: ToolCall[];
};

/** For models without thoughts, in requests that may call no tool. */
const AS_IT_IS: Reader = { read: (text) => (text ? [{ content: text }] : []), calls: [] };

const finish = (reason: string, calls: ToolCall[]) => (reason === "stop" && calls.length ? "tool_calls" : reason);

/** Streams chunks. Generation begins with the first read. */
async function* chunks(generate: () => GenerationStream[], head: object, newReader: () => Reader, includeUsage?: boolean) {
  const chunk = (index: number, delta: object, more: object = {}) => ({
    ...head,
    choices: [{ index, delta, logprobs: null, finish_reason: null, ...more }],
  });
  yield chunk(0, { role: "assistant", content: "" });
  const runs = generate();
  const all = [];
  try {
    for (const [index, run] of runs.entries()) {
      if (index) yield chunk(index, { role: "assistant", content: "" });
      const reader = newReader();
      for await (const { text, tokens } of run) {
        const logprobs = told(tokens.flatMap(({ logprobs }) => logprobs ?? []));
        const [first, ...more] = reader.read(text);
        if (first || logprobs) yield chunk(index, first ?? {}, { logprobs });
        for (const delta of more) yield chunk(index, delta);
      }
      for (const delta of reader.read("", true)) yield chunk(index, delta);
      const { finish_reason, stats } = await run.result;
      all.push(stats);
      yield chunk(index, {}, { finish_reason: finish(finish_reason, reader.calls) });
    }
  } finally {
    for (const run of runs) run[Symbol.asyncIterator]().return?.();
  }
  if (includeUsage) yield { ...head, choices: [], usage: usage(all) };
}

function usage(all: Stats[]): CompletionUsage {
  const [{ num_prompt_tokens: prompt_tokens, num_cached_tokens: cached_tokens }] = all;
  const sum = (of: (stats: Stats) => number) => all.reduce((sum, stats) => sum + of(stats), 0);
  const completion_tokens = sum((stats) => stats.num_emitted_tokens);
  const accepted_prediction_tokens = sum((stats) => stats.num_accepted_draft_tokens);
  const rejected_prediction_tokens = sum((stats) => stats.num_draft_tokens) - accepted_prediction_tokens;
  return {
    prompt_tokens,
    completion_tokens,
    total_tokens: prompt_tokens + completion_tokens,
    prompt_tokens_details: { cached_tokens },
    completion_tokens_details: { accepted_prediction_tokens, rejected_prediction_tokens },
  };
}

export type EmbeddingRequest = {
  /** texts or token ids */
  input: string | readonly string[] | readonly number[] | readonly (readonly number[])[];
  /** the answer repeats it */
  model?: string | null;
  /** `base64`: of the bytes of 32-bit floats */
  encoding_format?: "float" | "base64" | null;
  /** has no part in the answer */
  user?: string | null;
};

export type CreateEmbeddingResponse = {
  object: "list";
  data: { object: "embedding"; index: number; embedding: number[] | string }[];
  model: string;
  usage: { prompt_tokens: number; total_tokens: number };
};

export async function embeddings(engine: Engine, body: EmbeddingRequest, request?: RequestOptions | null): Promise<CreateEmbeddingResponse> {
  const { input, model, encoding_format, user, ...others } = body ?? {};
  const [unknown] = Object.entries(others).filter(([, value]) => value != null);
  if (unknown) throw badOption("options", unknown[0], "input, model, encoding_format, user");
  const format = encoding_format ?? "float";
  if (format !== "float" && format !== "base64") throw badOption("encoding_format", format, "float or base64");
  const isOne = typeof input === "string" || (Array.isArray(input) && typeof input[0] === "number");
  const texts = (isOne ? [input] : input) as (string | number[])[];
  if (!Array.isArray(texts)) throw badOption("input", input, "a text, token ids, or a list of them");
  const vectors = await engine.embed(texts, { signal: request?.signal });
  let prompt_tokens = 0;
  for (const text of texts) prompt_tokens += (typeof text === "string" ? await engine.tokenize(text) : text).length;
  const encoded = (vector: Float32Array) => (format === "float" ? [...vector] : btoa(String.fromCharCode(...new Uint8Array(vector.buffer))));
  const data = vectors.map((vector, index) => ({ object: "embedding" as const, index, embedding: encoded(vector) }));
  return { object: "list", data, model: model ?? "foretoken", usage: { prompt_tokens, total_tokens: prompt_tokens } };
}
