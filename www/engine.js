/**
 * foretoken in a page: language models on the user's own GPU, made fast by lossless speculative decoding.
 * The engine runs in a worker of its own; this is its remote control.
 */
import { list, remove } from "./cache.js";

/**
 * @typedef {"download" | "upload" | "compile"} Phase
 * @typedef {{ phase: Phase, model: "target" | "assistant" | "", file: string, loaded: number, total: number }} Progress
 *   bytes; `model` and `file` are empty but for downloads
 * @typedef {string | URL | File[] | FileList | FileSystemDirectoryHandle} Model
 *   a Hub id (`owner/name`), a base URL (starts with `/`, `./` or a scheme), or what the user picked
 * @typedef {{ role: string, content: string }} Message
 * @typedef {string | Message[] | number[] | Uint32Array} Prompt
 * @typedef {"draft_model" | "lookup" | "target"} Origin who proposed a token
 * @typedef {{ id: number, text: string, origin: Origin }} Token
 * @typedef {{ text: string, tokens: Token[] }} Piece what one round emitted
 */

/**
 * @typedef {object} LoadOptions
 * @property {Model} [assistant_model] the draft model; it shares the target's tokenizer
 * @property {(progress: Progress) => void} [onProgress]
 * @property {AbortSignal} [signal]
 * @property {string} [endpoint] the Hub; https://huggingface.co by default
 * @property {string} [revision] `main` by default
 * @property {string} [token] for private and gated models
 * @property {boolean} [cache] whether downloads are kept in the browser for the next time; true by default
 * @property {number} [max_context] positions of the KV cache
 * @property {"f32" | "f16"} [kv_dtype]
 * @property {number} [prefill_chunk]
 */

/**
 * @typedef {object} GenerateOptions
 * @property {number} [max_new_tokens]
 * @property {number} [num_assistant_tokens]
 * @property {"constant" | "heuristic" | "heuristic_transient"} [num_assistant_tokens_schedule]
 * @property {number} [prompt_lookup_num_tokens]
 * @property {number} [max_matching_ngram_size]
 * @property {string[]} [stop]
 * @property {"auto" | "off"} [speculation]
 * @property {AbortSignal} [signal]
 */

/**
 * @typedef {object} Generation
 * @property {string} text
 * @property {number[]} token_ids
 * @property {"stop" | "length" | "aborted"} finish_reason
 * @property {Record<string, any>} stats
 */

/** Every failure of the engine. `code` is stable and for programs, `message` is for people. */
export class ForetokenError extends Error {
  /** @param {{ code: string, message: string, detail?: unknown }} error */
  constructor({ code, message, detail = null }) {
    super(message);
    this.name = "ForetokenError";
    this.code = code;
    this.detail = detail;
  }
}

const aborted = (detail = null) => new ForetokenError({ code: "aborted", message: "aborted", detail });

export class Engine {
  /**
   * What is kept of the models that were downloaded. `delete` takes a model's name or URL, nothing for all of them; it is
   * false when there was none, or when a page is loading it just now.
   */
  static cache = { list, delete: remove };

  /** @type {Map<number, { resolve: Function, reject: Function, onEvent: Function }>} */
  #calls = new Map();
  #next = 0;
  #worker;
  /** @type {ForetokenError | null} why nothing works any more */
  #end = null;
  #last = null;
  #info = { device: null, memory: null, warnings: [] };

  /** Use {@link Engine.load}. */
  constructor() {
    this.#worker = new Worker(new URL("./worker.js", import.meta.url), { type: "module" });
    this.#worker.onmessage = ({ data }) => this.#hear(data);
    this.#worker.onerror = (event) => {
      event.preventDefault();
      const message = event.message || "the worker could not be started: are worker.js, foretoken.js and foretoken_bg.wasm beside engine.js?";
      this.#stop(new ForetokenError({ code: "internal", message }));
    };
    this.chat = { completions: { create: (body, options) => complete(this, body, options) } };
  }

  /**
   * Loads a model, and a draft model if one is named.
   * @param {Model} model
   * @param {LoadOptions} [options]
   * @returns {Promise<Engine>}
   */
  static async load(model, options = {}) {
    const { assistant_model, onProgress = () => {}, signal, endpoint, revision, token, cache = true, ...rest } = options;
    if (signal?.aborted) throw aborted();
    requireWebGpu();
    // The browser may refuse, or ask the user; nothing waits for it.
    const remote = [model, assistant_model].some((files) => typeof files === "string" || files instanceof URL);
    if (cache && remote) navigator.storage?.persist?.().catch(() => {});
    const engine = new Engine();
    const stop = () => engine.#stop(aborted());
    signal?.addEventListener("abort", stop, { once: true });
    try {
      const hub = { endpoint, revision, token, cache };
      const args = { model: portable(model), assistant: portable(assistant_model), hub, base: globalThis.document?.baseURI ?? location.href, options: rest };
      engine.#info = await engine.#call("load", args, onProgress).result;
      return engine;
    } catch (error) {
      engine.dispose();
      throw error;
    } finally {
      signal?.removeEventListener("abort", stop);
    }
  }

  /**
   * Continues a prompt. Iterate over the pieces, or await `result`, or both; leaving the loop early ends the generation.
   * @param {Prompt} prompt
   * @param {GenerateOptions} [options]
   * @returns {AsyncIterable<Piece> & { result: Promise<Generation> }}
   */
  generate(prompt, options = {}) {
    const { signal, ...rest } = options;
    const pieces = new Queue();
    const plain = ArrayBuffer.isView(prompt) ? Array.from(prompt) : prompt;
    const call = this.#call("generate", { prompt: plain, options: rest }, (tokens) => {
      pieces.push({ text: tokens.map(({ text }) => text).join(""), tokens });
    });
    const stop = () => this.#worker.postMessage({ id: call.id, method: "abort" });
    if (signal?.aborted) stop();
    signal?.addEventListener("abort", stop, { once: true });
    const result = call.result.then((generation) => {
      this.#last = generation.stats;
      if (signal?.aborted && generation.finish_reason === "aborted") throw aborted(generation);
      return generation;
    });
    result
      .then(() => pieces.end(), (error) => pieces.end(error))
      .finally(() => signal?.removeEventListener("abort", stop));
    return {
      result,
      async *[Symbol.asyncIterator]() {
        let done = false;
        try {
          for (let next = await pieces.shift(); next; next = await pieces.shift()) yield next;
          done = true;
        } finally {
          if (!done) stop();
        }
      },
    };
  }

  /**
   * The tokens of a text, or of messages under the chat template.
   * @param {Prompt} prompt
   * @returns {Promise<number[]>}
   */
  tokenize(prompt) {
    return this.#call("encode", { prompt }).result;
  }

  /**
   * @param {number[] | Uint32Array} ids
   * @param {{ skip_special_tokens?: boolean }} [options]
   * @returns {Promise<string>}
   */
  detokenize(ids, { skip_special_tokens = true } = {}) {
    return this.#call("decode", { ids: Array.from(ids), skip_special: skip_special_tokens }).result;
  }

  /** Statistics of the last generation, under vLLM's names; null before the first. */
  get stats() {
    return this.#last;
  }

  /** The GPU: `{name, backend, driver, max_buffer_size, max_binding_size}`. */
  get device() {
    return this.#info.device;
  }

  /** Bytes on the GPU: `{target, draft}`, each `{weights, kv, scratch, read_per_token}`. */
  get memory() {
    return this.#info.memory;
  }

  /** What a person should know of the loading: that nothing could be kept, for example. @returns {string[]} */
  get warnings() {
    return this.#info.warnings;
  }

  /**
   * What was asked of the GPU since loading began: `{submits, blocking_readbacks, readback_bytes, creates, dispatches, allocated}`.
   * @returns {Promise<Record<string, number>>}
   */
  counters() {
    return this.#call("counters", {}).result;
  }

  /** Ends the worker and frees the GPU's memory. What still runs rejects with `aborted`. */
  dispose() {
    this.#stop(aborted());
  }

  #call(method, args, onEvent = () => {}) {
    const id = this.#next++;
    const result = new Promise((resolve, reject) => {
      if (this.#end) return reject(this.#end);
      this.#calls.set(id, { resolve, reject, onEvent });
      try {
        this.#worker.postMessage({ id, method, args });
      } catch (error) {
        this.#calls.delete(id);
        reject(new ForetokenError({ code: "bad-option", message: `an option cannot be sent to the worker: ${error.message}` }));
      }
    });
    // Whoever only iterates hears of it there.
    result.catch(() => {});
    return { id, result };
  }

  #hear({ id, event, result, error, fatal }) {
    if (fatal) return this.#stop(new ForetokenError(fatal));
    const call = this.#calls.get(id);
    if (!call) return;
    if (event !== undefined) return call.onEvent(event);
    this.#calls.delete(id);
    if (error) call.reject(new ForetokenError(error));
    else call.resolve(result);
  }

  #stop(reason) {
    this.#end ??= reason;
    this.#worker.terminate();
    for (const { reject } of this.#calls.values()) reject(reason);
    this.#calls.clear();
  }
}

/** Pieces that wait for their reader, or a reader that waits for pieces. */
class Queue {
  #items = [];
  #ended = false;
  #error = null;
  #wake = () => {};

  push(item) {
    this.#items.push(item);
    this.#wake();
  }

  end(error = null) {
    this.#ended = true;
    this.#error = error;
    this.#wake();
  }

  /** The next item; undefined at the end. */
  async shift() {
    while (!this.#items.length && !this.#ended) await new Promise((wake) => (this.#wake = wake));
    if (!this.#items.length && this.#error) throw this.#error;
    return this.#items.shift();
  }
}

function portable(model) {
  if (model instanceof URL) return model.href;
  return typeof FileList !== "undefined" && model instanceof FileList ? [...model] : model;
}

function requireWebGpu() {
  if (globalThis.navigator?.gpu) return;
  const reason = globalThis.isSecureContext
    ? "this browser has no WebGPU, or it is switched off. Chrome and Edge 113 or later have it, Safari 26 and Firefox 141 on Windows; " +
      "on Linux start Chrome with --enable-unsafe-webgpu --enable-features=Vulkan"
    : "WebGPU needs a secure page: https, or localhost";
  throw new ForetokenError({ code: "webgpu-unavailable", message: `no usable GPU: ${reason}`, detail: { reason } });
}

/**
 * OpenAI's chat completions. `signal` as the second argument, as in their library.
 * @param {Engine} engine
 * @param {{ messages: { role: string, content: string | { type: "text", text: string }[] }[], stream?: boolean, [option: string]: any }} body
 * @param {{ signal?: AbortSignal }} [request]
 */
async function complete(engine, body, { signal } = {}) {
  const { messages, model = "foretoken", stream = false, stream_options, n = 1, user, ...rest } = body;
  const { max_tokens, max_completion_tokens = max_tokens, stop, temperature, ...options } = rest;
  if (n !== 1) throw new ForetokenError({ code: "bad-option", message: `n: ${n} is not allowed; allowed: 1`, detail: { option: "n" } });
  // Temperature 0 asks for what greedy decoding does.
  if (temperature) options.temperature = temperature;
  if (max_completion_tokens != null) options.max_new_tokens = max_completion_tokens;
  if (stop != null) options.stop = [stop].flat();
  const prompt = messages.map(({ role, content }) => ({
    role,
    content: Array.isArray(content) ? content.map(({ text }) => text).join("") : content,
  }));
  const run = engine.generate(prompt, { ...options, signal });
  const head = { id: `chatcmpl-${crypto.randomUUID()}`, created: Math.floor(Date.now() / 1000), model };
  if (stream) return chunks(run, { ...head, object: "chat.completion.chunk" }, stream_options?.include_usage);
  const { text, finish_reason, stats } = await run.result;
  const message = { role: "assistant", content: text, refusal: null };
  return { ...head, object: "chat.completion", choices: [{ index: 0, message, logprobs: null, finish_reason }], usage: usage(stats) };
}

async function* chunks(run, head, includeUsage) {
  const chunk = (delta, finish_reason = null) => ({ ...head, choices: [{ index: 0, delta, logprobs: null, finish_reason }] });
  yield chunk({ role: "assistant", content: "" });
  for await (const { text } of run) if (text) yield chunk({ content: text });
  const { finish_reason, stats } = await run.result;
  yield chunk({}, finish_reason);
  if (includeUsage) yield { ...head, choices: [], usage: usage(stats) };
}

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
