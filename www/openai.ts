/** A server with OpenAI's API, in place of a worker. */
import { draws } from "./chat.js";
import { aborted, badOption, failure } from "./error.js";
import { request, retryAfter } from "./http.js";
import { platform } from "./start-worker.js";
import type { DeviceInfo, GenerateOptions, Generation, Memory, ModelMemory, Prompt, Server, Stats } from "./api.js";
import type { ChatCompletion, ChatCompletionChunk, ChatRequest, CompletionUsage, RequestOptions } from "./chat.js";
import type { ErrorCode } from "./error.js";
import type { ToWorker } from "./protocol.js";
import type { WorkerHandle } from "./start-worker.js";

/** Options that do not change the text. */
const NO_PART = [
  "num_assistant_tokens",
  "num_assistant_tokens_schedule",
  "prompt_lookup_num_tokens",
  "max_matching_ngram_size",
  "prompt_lookup_rule",
  "assistant_confidence_threshold",
  "drafter",
  "acceptance",
  "speculation",
  "overlap",
];
/** Options that servers do not have, with their defaults. */
const UNKNOWN = { no_repeat_ngram_size: 0, bad_words_ids: [], context: "error" } as const;
/** Other names in the API. */
const NAMES: Record<string, string> = { max_new_tokens: "max_tokens", min_new_tokens: "min_tokens" };

/** Seconds to wait for the list of models. */
const REACH = 20;

/** Error codes by HTTP status. Other statuses: `bad-option` for 400 to 499, else `network`. */
const CODES: Record<number, ErrorCode> = {
  401: "unauthorized",
  403: "unauthorized",
  404: "not-found",
  408: "overloaded",
  429: "overloaded",
  503: "overloaded",
  529: "overloaded",
};

/** Returns options under the API's names. As in the engine, the default is the most likely token. */
function asked(options: Record<string, any>) {
  const given = Object.entries(options).filter(([name, value]) => value != null && !NO_PART.includes(name));
  const body: Record<string, any> = Object.fromEntries(given.map(([name, value]) => [NAMES[name] ?? name, value]));
  for (const [name, value] of Object.entries(UNKNOWN)) {
    if (name in body && JSON.stringify(body[name]) !== JSON.stringify(value))
      throw badOption(name, body[name], `${JSON.stringify(value)}, where a server writes`);
    delete body[name];
  }
  const { response_format: form, prediction } = body;
  if (!draws(body)) {
    for (const name of ["top_p", "top_k", "min_p"]) delete body[name];
    body.temperature = 0;
  }
  delete body.do_sample;
  if (typeof prediction === "string") body.prediction = { type: "content", content: prediction };
  if (form?.type === "regex" || form?.type === "grammar")
    throw badOption("response_format", form.type, "text, json_object or json_schema, where a server writes");
  // The engine is always strict.
  if (form?.json_schema) body.response_format = { ...form, json_schema: { name: "answer", strict: true, ...form.json_schema } };
  return body;
}

/** Parses the events of a stream. Throws if the stream ends before `[DONE]`. */
async function* events(bytes: ReadableStream<Uint8Array>) {
  const reader = bytes.pipeThrough(new TextDecoderStream() as any).getReader();
  let rest = "";
  for (;;) {
    const { done, value = "" } = await reader.read();
    const lines = (rest + value).split(/\r\n|\n|\r/);
    rest = done ? "" : (lines.pop() as string);
    for (const line of lines) {
      const data = /^data: ?(.*)$/.exec(line)?.[1];
      if (data === "[DONE]") return;
      if (data) yield JSON.parse(data);
    }
    if (done) throw new Error("the stream broke off");
  }
}

/** Adds fields that a server may omit. */
const whole = ({ prompt_tokens_details, completion_tokens_details, ...usage }: any): CompletionUsage => ({
  ...usage,
  prompt_tokens_details: { cached_tokens: 0, ...prompt_tokens_details },
  completion_tokens_details: { accepted_prediction_tokens: 0, rejected_prediction_tokens: 0, ...completion_tokens_details },
});

export class OpenAI {
  #key;
  /** Ends all requests. */
  #closing = new AbortController();

  declare model: string;
  declare url: string;

  constructor({ url, model, api_key }: Server) {
    if (typeof model !== "string" || !model) throw badOption("model", model, "the name of a model of the server");
    if (api_key != null && typeof api_key !== "string") throw badOption("api_key", typeof api_key, "a text");
    const [address, ...others] = [url].flat();
    if (others.length) throw badOption("url", url, "one address, or several with a `tokenizer`");
    this.model = model;
    this.#key = api_key ?? "";
    try {
      const { origin, pathname } = new URL(address, platform.base());
      this.url = `${origin}${pathname === "/" ? "/v1" : pathname.replace(/\/$/, "")}`;
    } catch {
      throw badOption("url", url, "the address of an API like OpenAI's, https://host/v1");
    }
  }

  /** Removes the key from a text: servers may quote it. */
  #withoutKey(text: string) {
    return this.#key ? text.replaceAll(this.#key, "...") : text;
  }

  #failed(code: ErrorCode, message: string, detail: object = {}) {
    return failure(code, this.#withoutKey(`${this.url}: ${message}`), detail);
  }

  /** Returns the error of a refusal. @param said the body, if it was JSON */
  #refused(said: any, status: number, headers?: Headers) {
    const { message = said?.message ?? said?.detail, code: reason, param } = said?.error ?? {};
    const words = typeof message === "string" ? message : typeof said?.error === "string" ? said.error : "";
    const code = reason === "context_length_exceeded" ? "context-full" : (CODES[status] ?? (status >= 400 && status < 500 ? "bad-option" : "network"));
    const more = {
      ...(code === "overloaded" && { retry_after: (headers && retryAfter(headers)) ?? null }),
      ...(code === "bad-option" && { option: typeof param === "string" ? param : "request" }),
    };
    return this.#failed(code, `${status}${words && `: ${words.slice(0, 500)}`}`, { status, ...more });
  }

  /** Combines the caller's signal and the end of the engine. */
  #until(signal?: AbortSignal | null): AbortSignal {
    return AbortSignal.any([this.#closing.signal, ...(signal ? [signal] : [])]);
  }

  async #ask(path: string, body: object | undefined, signal: AbortSignal) {
    const response = await this.#during(signal, () => request(`${this.url}/${path}`, { key: this.#key, body: body && JSON.stringify(body), signal }));
    if (response.ok) return response;
    const said = await response.json().catch(() => null);
    throw this.#refused(said, response.status, response.headers);
  }

  /** Turns failures into network errors, unless the request was aborted. */
  async #during<T>(signal: AbortSignal, work: () => Promise<T>) {
    try {
      return await work();
    } catch (error) {
      if (signal.aborted) throw aborted(signal);
      if (error instanceof SyntaxError) throw this.#foreign();
      throw this.#failed("network", `${error.message}. Can it be reached, and does it allow other origins (CORS)?`);
    }
  }

  #foreign() {
    return this.#failed("network", "the answer is not that of such an API");
  }

  /** Yields the chunks. */
  async *#stream(path: string, body: object, signal: AbortSignal): AsyncGenerator<any, void> {
    const leaving = new AbortController();
    const both = AbortSignal.any([signal, leaving.signal]);
    const response = await this.#ask(path, { ...body, stream: true }, both);
    const chunks = events(response.body as ReadableStream<Uint8Array>);
    let isWhole = false;
    try {
      for (;;) {
        const { done, value } = await this.#during(both, () => chunks.next());
        isWhole = !!done;
        if (done) return;
        if (value?.error) throw this.#refused(value, Number(value.error.code) || 500);
        if (!Array.isArray(value?.choices)) throw this.#foreign();
        yield value.usage ? { ...value, usage: whole(value.usage) } : value;
      }
    } finally {
      // The server stops.
      if (!isWhole) leaving.abort();
    }
  }

  /** Chat completions, as those of the engine, but with the server's model name. */
  async create(body: ChatRequest & { stream?: boolean | null }, request?: RequestOptions | null): Promise<ChatCompletion | AsyncIterable<ChatCompletionChunk>> {
    const { stream, ...rest } = body ?? {};
    const signal = this.#until(request?.signal);
    const wanted = { ...asked(rest), model: this.model };
    if (stream) return this.#stream("chat/completions", wanted, signal);
    const response = await this.#ask("chat/completions", wanted, signal);
    const answer = await this.#during(signal, () => response.json());
    if (!Array.isArray(answer?.choices)) throw this.#foreign();
    return answer.usage ? { ...answer, usage: whole(answer.usage) } : answer;
  }

  async #generate(
    { prompt, options: { logprobs, ...options } }: { prompt: Prompt; options: Partial<GenerateOptions> },
    tell: (event: any) => void,
    signal: AbortSignal,
  ): Promise<Generation> {
    if (logprobs) throw badOption("logprobs", logprobs, "false where a server writes, or chat.completions");
    const begun = performance.now();
    const seconds = () => (performance.now() - begun) / 1000;
    if (typeof prompt === "object" && !prompt.length) throw badOption("prompt", prompt, "a text, or one message or token id, or more");
    const isChat = Array.isArray(prompt) && typeof prompt[0] === "object";
    const body = {
      max_tokens: 256,
      ...asked(options),
      ...(isChat ? { messages: prompt } : { prompt }),
      model: this.model,
      stream_options: { include_usage: true },
    };
    let [text, first, ended] = ["", 0, "aborted"];
    let usage: CompletionUsage | undefined;
    try {
      for await (const { choices, usage: used } of this.#stream(isChat ? "chat/completions" : "completions", body, signal)) {
        const [choice] = choices;
        const piece = choice?.delta?.content ?? choice?.text ?? "";
        first ||= piece && seconds();
        text += piece;
        // The API omits token ids.
        if (piece) tell({ tokens: [{ id: -1, text: piece, origin: "target" }] });
        if (choice?.finish_reason) ended = choice.finish_reason === "length" ? "length" : "stop";
        usage = used ?? usage;
      }
    } catch (error) {
      if (error.code !== "aborted") throw error;
      ended = "aborted";
    }
    const finish_reason = ended as Generation["finish_reason"];
    return { text, token_ids: [], finish_reason, stats: statistics(body, usage, first, seconds()) };
  }

  /** Checks that the server answers and accepts the key. Returns warnings. */
  async #check(signal: AbortSignal): Promise<string[]> {
    const late = AbortSignal.timeout(REACH * 1000);
    const both = AbortSignal.any([signal, late]);
    try {
      const response = await this.#ask("models", undefined, both);
      const { data } = await this.#during(both, () => response.json());
      const isListed = !Array.isArray(data) || data.some(({ id }) => id === this.model);
      return isListed ? [] : [`${this.url} does not list a model ${this.model}`];
    } catch (error) {
      if (late.aborted && !signal.aborted) throw this.#failed("network", `no answer within ${REACH} seconds`);
      // Some servers have no list.
      if (["not-found", "bad-option"].includes(error.code)) return [];
      throw error;
    }
  }

  /** Returns a handle with a worker's interface. */
  connect(): WorkerHandle {
    this.#closing = new AbortController();
    const running: Map<number, AbortController> = new Map();
    const answer = async ({ id, method, args }: Extract<ToWorker, { type: "call" }>, tell: (event: any) => void): Promise<unknown> => {
      const signal = this.#until(running.get(id)?.signal);
      if (method === "load") return { device: this.#device(), memory: MEMORY, warnings: await this.#check(signal), toolFormat: null, reasoningFormat: null };
      if (method === "generate") return this.#generate(args as any, tell, signal);
      throw badOption("model", this.model, `for ${method}: a model on this device`);
    };
    const port: WorkerHandle = {
      onmessage: null,
      postMessage(message) {
        if (message.type === "abort") running.get(message.id)?.abort();
        if (message.type !== "call") return;
        const { id } = message;
        const say = (data: any) => port.onmessage?.({ data: { id, ...data } } as any);
        running.set(id, new AbortController());
        answer(message, (event) => say({ type: "event", event }))
          .then(
            (result) => say({ type: "result", result }),
            ({ code = "internal", message, detail = null }) => say({ type: "error", error: { code, message, detail } }),
          )
          .finally(() => running.delete(id));
      },
      terminate: () => this.#closing.abort(),
    };
    return port;
  }

  #device(): DeviceInfo {
    return { name: `${this.model} at ${this.url}`, backend: "server", driver: "", max_buffer_size: 0, max_binding_size: 0, software: false };
  }
}

const NOTHING: ModelMemory = { weights: 0, kv: 0, scratch: 0, read_per_token: 0 };
const MEMORY: Memory = { target: NOTHING, draft: null };

/** Returns the statistics of a server's text; unknown values are 0. @param first seconds to the first piece */
function statistics(asked: Record<string, any>, usage: CompletionUsage | undefined, first: number, total: number): Stats {
  const written = usage?.completion_tokens ?? 0;
  const tokens_per_second = written > 1 && total > first ? (written - 1) / (total - first) : 0;
  const { temperature = 1, top_k = 0, top_p = 1, min_p = 0, repetition_penalty = 1, presence_penalty = 0, frequency_penalty = 0, seed = null } = asked;
  return {
    num_spec_steps: 0,
    num_draft_tokens: 0,
    num_accepted_draft_tokens: 0,
    num_emitted_tokens: written,
    mean_acceptance_length: 0,
    draft_acceptance_rate: 0,
    acceptance_histogram: [],
    per_step_drafted: [],
    per_step_accepted: [],
    num_prompt_tokens: usage?.prompt_tokens ?? 0,
    num_cached_tokens: usage?.prompt_tokens_details.cached_tokens ?? 0,
    num_cached_draft_tokens: 0,
    num_dropped_messages: 0,
    speculating: null,
    distributed: null,
    times: { prefill: 0, first_token: first, draft: 0, masks: 0, verify: 0, emit: 0, host: 0, hidden: 0, total, tokens_per_second },
    sampling: {
      do_sample: temperature !== 0,
      temperature,
      top_k,
      top_p,
      min_p,
      repetition_penalty,
      presence_penalty,
      frequency_penalty,
      no_repeat_ngram_size: 0,
    },
    seed,
    warnings: [],
    wasm_memory: 0,
  } as any;
}
