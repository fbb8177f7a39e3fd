/**
 * foretoken in a page: language models on the user's own GPU, made fast by lossless speculative decoding.
 * The engine runs in a worker of its own; this is its remote control. Importing it touches nothing: a server may.
 */
import { list, remove } from "./cache.js";
import { complete } from "./chat.js";
import { ForetokenError, aborted, badOption } from "./error.js";
import { Queue } from "./queue.js";

/**
 * @typedef {"download" | "upload" | "compile"} Phase
 *
 * @typedef {object} Progress
 * @property {Phase} phase
 * @property {"target" | "assistant" | ""} model which model; empty but for downloads
 * @property {string} file its name in the model's folder; empty but for downloads
 * @property {number} loaded bytes so far (of a compilation: 0, then 1); it never falls
 * @property {number} total bytes in all (of a compilation: 1)
 *
 * @typedef {object} PrefillProgress after each chunk of a prompt but the last, behind which the first token comes
 * @property {"prefill"} phase
 * @property {number} loaded prompt tokens read so far, cached ones included
 * @property {number} total prompt tokens to read
 *
 * @typedef {string | URL | readonly File[] | FileList | FileSystemDirectoryHandle} Model
 *   a Hub id (`owner/name`), a base URL or that of a GGUF file (starts with `/`, `./` or a scheme), or what the user picked
 *
 * @typedef {{ type: "text", text: string }} TextPart
 *
 * @typedef {{ role: string, content?: string | readonly TextPart[] | null, [field: string]: any }} Message
 *   `role`: `system`, `user` or `assistant`; what else there is depends on the model's chat template, which also sees the other
 *   fields (`name`, `tool_calls`, `tool_call_id`, ...). Text parts are joined
 *
 * @typedef {string | readonly Message[] | readonly number[] | Uint32Array} Prompt
 *   a text, messages for the model's chat template, or token ids
 *
 * @typedef {"draft_model" | "lookup" | "prediction" | "target"} Origin who proposed a token; the target approved every one
 *
 * @typedef {object} Token
 * @property {number} id
 * @property {string} text what it completes: empty in the middle of a character, or while a stop string may be beginning
 * @property {Origin} origin
 *
 * @typedef {object} Piece what one round wrote: the draft tokens that it accepted, and one of the target's own
 * @property {string} text that of all its tokens
 * @property {Token[]} tokens
 */

/**
 * @typedef {object} LoadOptions
 * @property {Model} [assistant_model] the draft model; fastest with the target's tokenizer
 * @property {string} [file] the GGUF file that is meant, in a folder with several: `*` stands for any characters, as in `*Q4_K_M.gguf`
 * @property {string} [assistant_file] the same for the draft model
 * @property {(progress: Progress) => void} [onProgress]
 * @property {AbortSignal} [signal] ends the loading, which rejects with `aborted`; its `reason` is the error's `cause`
 * @property {string} [endpoint] the Hub; https://huggingface.co by default
 * @property {string} [revision] a branch, tag or commit on the Hub; `main` by default
 * @property {string} [token] for private and gated models; sent to the Hub only
 * @property {boolean} [cache] whether downloads are kept in the browser for the next time; true by default
 * @property {boolean} [persist] whether the browser is asked to spare them when space runs low (Firefox then asks the user);
 *   false by default. `navigator.storage.persisted()` tells what it decided
 * @property {number} [max_context] positions that the KV cache can grow to, 2 to 1048576; by default what the model was made for, at
 *   most 4096
 * @property {"auto" | "f32" | "f16" | "q8" | "q4"} [dtype] how weights are stored on the GPU: `auto`, as the checkpoint has them,
 *   by default; `q8` and `q4` quantise those that it has as floats
 * @property {"f32" | "f16"} [kv_dtype] elements of the KV cache: `f32`, exact, or `f16`, half the memory; by default
 *   `f16`, or `f32` for a model with matrices in f32
 * @property {number} [prefill_chunk] prompt tokens per forward pass, 1 to 4096; 64 by default. The text is always the same
 * @property {number} [sp_degree] instances of the target that verify at the same time (distributed speculative inference), 1
 *   to 8, each in a worker with its own device, weights and KV cache; 1 by default. Pays only where they really run at the
 *   same time
 * @property {string | URL} [worker] the address of `foretoken/worker`, where a bundler does not find it; by default worker.js
 *   beside this file. Browsers start no worker from another origin
 * @property {string | URL} [wasm] the address of `foretoken/foretoken_bg.wasm`; by default beside the worker's files
 */

/**
 * @typedef {object} GenerateOptions
 * @property {number} [max_new_tokens] tokens, 1 or more; 256 by default
 * @property {number} [num_assistant_tokens] draft tokens that a round begins with; 5 by default, 0 for no draft model, at
 *   most 31 in any round
 * @property {"adaptive" | "constant" | "heuristic" | "heuristic_transient"} [num_assistant_tokens_schedule] how that number
 *   changes. `adaptive`, the default: number and drafter are what was measured to be fastest, none where nothing helps;
 *   `heuristic`, as in transformers: 2 more when all were accepted, else 1 fewer, kept from call to call
 * @property {number} [prompt_lookup_num_tokens] most tokens that the lookup drafts at a time; unless the schedule is
 *   adaptive, it also makes the lookup the drafter
 * @property {number} [max_matching_ngram_size] tokens that the lookup tries to match first, 1 to 64; 2 by default
 * @property {"leftmost" | "whole" | "most_recent"} [prompt_lookup_rule] which of several matches the lookup takes: the first,
 *   as transformers does (the default); the first, if all tokens asked for follow it; the last
 * @property {number} [assistant_confidence_threshold] a draft ends behind a token that the draft model finds less likely
 *   than this, 0 to 1; 0 by default: never
 * @property {string} [prediction] the text that is expected, to draft from
 * @property {"auto" | "draft_model" | "lookup" | "prediction" | "chain"} [drafter] who drafts; `auto` by default: whoever is
 *   fastest (`adaptive`), or else the prediction, the lookup or the draft model, by what is given; `chain`: the prediction,
 *   else the lookup, else the draft model
 * @property {boolean | "model"} [do_sample] whether tokens are drawn at random; false by default: the most likely one is taken.
 *   `model`: as the model's generation_config.json says, which then also sets what the next five options leave out
 * @property {number} [temperature] logits are divided by it, 0.001 to 100; 1 by default
 * @property {number} [top_k] so many most likely tokens remain; 0, the default: all
 * @property {number} [top_p] the most likely tokens whose probabilities sum up to this remain; 1, the default: all
 * @property {number} [min_p] tokens remain that have at least this times the highest probability; 0, the default: all
 * @property {number} [repetition_penalty] logits of tokens that the text has are divided by it where positive, else
 *   multiplied; 1, the default: none
 * @property {number} [seed] key of the random choices, 0 to 2^53 - 1: the same seed gives the same text; by default another
 *   one each time, which the statistics tell
 * @property {"coupled" | "rejection"} [acceptance] how draft tokens are accepted when tokens are drawn at random. `coupled`,
 *   the default: the text depends on the seed alone; `rejection`: a little more are accepted, the text follows the same
 *   distribution, but depends on who drafted
 * @property {Readonly<Record<number, number>>} [logit_bias] added to the logits of tokens, by id; -100 to 100
 * @property {readonly (readonly number[])[]} [bad_words_ids] token sequences that may not come
 * @property {number} [min_new_tokens] no end of text before so many tokens; 0 by default
 * @property {readonly string[]} [stop] texts that end the generation; they are not part of the result
 * @property {"error" | "shift"} [context] what to do with messages that are longer than the context: `error`, the default,
 *   or drop the oldest turns after the system message
 * @property {readonly object[]} [tools] of messages: the functions that the model may call, as its chat template wants them
 *   described, mostly `{ type: "function", function: { name, description, parameters } }`. A call that it writes is text
 * @property {readonly object[]} [documents] of messages: what they are about, mostly `{ title, text }`
 * @property {Readonly<Record<string, unknown>>} [chat_template_kwargs] of messages: other variables of the chat template, such as
 *   `{ enable_thinking: false }` or `{ date_string: "26 Jul 2024" }`
 * @property {boolean} [continue_final_message] of messages: the last one, the assistant's, is the beginning of the answer; false by
 *   default
 * @property {boolean} [add_generation_prompt] of messages: whether the prompt ends where an answer begins; true by default, unless
 *   the last message is continued
 * @property {"auto" | "off"} [speculation] `off`: the same text, one token per forward pass
 * @property {(progress: PrefillProgress) => void} [onProgress] hears how much of a long prompt is read
 * @property {boolean} [overlap] whether the engine decodes text, records commands and, where it can, submits the next round
 *   while the GPU computes one; true by default, and the text is the same
 * @property {AbortSignal} [signal] ends the generation, or takes it back while it waits for another: its result rejects with
 *   `aborted`; what was written is the error's `detail`, and the signal's `reason` its `cause`
 */

/** @typedef {"tools" | "documents" | "chat_template_kwargs" | "continue_final_message" | "add_generation_prompt"} TemplateOption */

/**
 * @typedef {object} Times seconds, but for the last
 * @property {number} prefill reading the prompt; the GPU may still compute its last chunk afterwards
 * @property {number} first_token from the call to the first token
 * @property {number} draft proposing draft tokens on the CPU
 * @property {number} verify recording, submitting and waiting for rounds
 * @property {number} emit accepting, decoding text, calling back
 * @property {number} host work of rounds outside the GPU: drafting, recording, submitting, accepting, decoding text, calling
 *   back
 * @property {number} hidden of this, what was done while the GPU computed; a browser does not say when the GPU is done, so
 *   here it may be less
 * @property {number} total
 * @property {number} tokens_per_second generated tokens after the first round
 *
 * @typedef {object} Speculating
 * @property {"draft_model" | "lookup" | "prediction" | null} drafter who drafted in the latest round; null: plain decoding
 * @property {number} lookahead draft tokens of that round
 * @property {number} expected_tokens_per_second 0 before anything was measured
 * @property {number} plain_tokens_per_second of plain decoding, as measured; 0 before that
 * @property {string} reason in words
 * @property {{ plain: number, prediction: number, lookup: number, draft_model: number }} rounds by who drafted
 *
 * @typedef {object} Distributed what several targets did
 * @property {number} sp_degree targets
 * @property {number} lookahead draft tokens of a verify task
 * @property {number} num_verify_tasks verify tasks that were given out
 * @property {number} num_forwards target forwards that were waited for
 * @property {number} num_cancelled_tasks tasks taken back, drafting included
 * @property {number} num_rejected_tokens draft tokens that the target replaced
 * @property {number} num_lost times that a target, or its device, was lost
 * @property {number} target_latency mean seconds of a target forward, reading the prompt left out
 * @property {number} drafter_latency mean seconds of a step of the draft model; 0 without one
 *
 * @typedef {object} SamplingValues under the names of the options; those of drawing change nothing where nothing is drawn
 * @property {boolean} do_sample
 * @property {number} temperature
 * @property {number} top_k
 * @property {number} top_p
 * @property {number} min_p
 * @property {number} repetition_penalty
 *
 * @typedef {object} Stats what a generation did, under vLLM's names
 * @property {number} num_spec_steps rounds, which are the target forwards after prefill
 * @property {number} num_draft_tokens draft tokens proposed
 * @property {number} num_accepted_draft_tokens draft tokens accepted
 * @property {number} num_emitted_tokens tokens generated: the accepted ones, and one more per round
 * @property {number} mean_acceptance_length tokens per target forward: 1 + accepted / rounds
 * @property {number} draft_acceptance_rate accepted / proposed; 0 without proposals
 * @property {number[]} acceptance_histogram entry a counts the rounds that accepted a draft tokens
 * @property {number[]} per_step_drafted draft tokens proposed, by round
 * @property {number[]} per_step_accepted draft tokens accepted, by round
 * @property {number} num_prompt_tokens
 * @property {number} num_cached_tokens prompt tokens whose keys and values were still cached
 * @property {number} num_cached_draft_tokens of these, those that the draft model's cache still held as well;
 *   0 for one with another tokenizer
 * @property {number} num_dropped_messages messages of the chat that were dropped because it had outgrown the context
 * @property {SamplingValues} sampling how tokens were chosen; with `do_sample: "model"` partly by the model's files
 * @property {number | null} seed key of the random choices; null where there were none
 * @property {Speculating | null} speculating what the adaptive schedule chose last, and why; null with another schedule
 * @property {Distributed | null} distributed what several targets did (`sp_degree`); null with one
 * @property {Times} times
 * @property {string[]} warnings what the user should know about this device or model, in words
 * @property {number} wasm_memory bytes of the engine outside the GPU
 *
 * @typedef {object} Generation
 * @property {string} text without the prompt, stop strings and special tokens
 * @property {number[]} token_ids
 * @property {"stop" | "length" | "aborted"} finish_reason `stop`: an end token or a stop string; `length`:
 *   `max_new_tokens`, or the context is full; `aborted`: the reader left the loop
 * @property {Stats} stats
 *
 * @typedef {AsyncIterable<Piece> & { result: Promise<Generation> }} GenerationStream
 */

/**
 * @typedef {object} DeviceInfo
 * @property {string} name
 * @property {string} backend
 * @property {string} driver
 * @property {number} max_buffer_size bytes
 * @property {number} max_binding_size bytes
 * @property {boolean} software whether it computes on the CPU
 *
 * @typedef {object} ModelMemory bytes on the GPU
 * @property {number} weights
 * @property {number} kv the KV cache, once a text fills it
 * @property {number} scratch activations, logits, tables
 * @property {number} read_per_token what a step of one token reads of the weights
 *
 * @typedef {{ target: ModelMemory, draft: ModelMemory | null }} Memory
 *
 * @typedef {object} Counters
 * @property {number} submits queue submissions
 * @property {number} prepared of those, the ones whose commands were recorded while the GPU computed another
 * @property {number} ahead of those, the ones behind a round whose tokens were not read yet
 * @property {number} blocking_readbacks times that the engine waited for bytes from the GPU
 * @property {number} readback_bytes
 * @property {number} creates buffers, bind groups and pipelines created
 * @property {number} pipelines of those, the pipelines: kernel variants compiled
 * @property {number} dispatches kernel calls
 * @property {number} allocated bytes of all buffers that there are
 */

/**
 * @typedef {import("./chat.js").ChatCompletion} ChatCompletion
 * @typedef {import("./chat.js").ChatCompletionChunk} ChatCompletionChunk
 * @typedef {import("./chat.js").ChatRequest} ChatRequest
 * @typedef {import("./chat.js").CompletionUsage} CompletionUsage
 * @typedef {import("./chat.js").CreateCompletion} CreateCompletion
 * @typedef {import("./chat.js").RequestOptions} RequestOptions
 */

/**
 * @typedef {object} Inspection
 * @property {string} model
 * @property {string} architecture
 * @property {number} download_bytes of all files that loading it reads
 * @property {{ count: number, bytes: number, dtypes: Record<string, { count: number, bytes: number }> }} tensors the weights, in
 *   all and by their type, such as `F16` or `Q4_K`
 * @property {{ max_context: number, prefill_chunk: number, kv_dtype: string }} capacity the room that it would get
 * @property {ModelMemory} memory
 * @property {number} total bytes on the GPU, without those of a draft model
 * @property {DeviceInfo | null} device null where there is no GPU
 * @property {string | null} unfit why it would not fit that GPU's limits; null where it would. How much memory is free, no
 *   browser tells before it is asked for
 */

/** @typedef {import("./error.js").ErrorCode} ErrorCode */

export { ForetokenError };

/** A model, and the draft model that guesses for it, on the GPU. Calls are answered one after the other. */
export class Engine {
  /**
   * What is kept of the models that were downloaded. `delete` takes a model's name or URL, nothing for all of them; it is
   * false when there was none, or when a page is loading it just now.
   */
  static cache = { list, delete: remove };

  /** @type {Map<number, { resolve: Function, reject: Function, onEvent: Function }>} */
  #calls = new Map();
  #next = 0;
  /** @type {Worker | null} none after it broke down, until it is needed again */
  #worker = null;
  /** Workers that have a target each, where there are several. @type {Map<number, Worker>} */
  #hired = new Map();
  /** How to load the models, at first and into a new worker. */
  #load;
  /** @type {ForetokenError | null} why nothing works any more */
  #end = null;
  /** @type {Stats | null} */
  #last = null;
  /** @type {{ device: DeviceInfo, memory: Memory, warnings: string[] }} */
  #info = /** @type {any} */ ({ device: null, memory: null, warnings: [] });

  /**
   * @private Use {@link Engine.load}.
   * @param {object} args
   * @param {((progress: Progress) => void) | undefined} onProgress
   * @param {string | undefined} worker the address of its script
   */
  constructor(args, onProgress, worker) {
    this.#load = { args, onProgress, worker };
    /** @type {any} its result depends on `stream` */
    const create = (/** @type {ChatRequest} */ body, /** @type {RequestOptions} */ request) => complete(this, body, request);
    /**
     * OpenAI's chat completions: `create(body, { signal })` fulfils with a {@link ChatCompletion}, or with `stream: true`
     * with an async iterable of {@link ChatCompletionChunk}s, whose text begins when it is read and ends when its reader leaves.
     * Errors are those of {@link Engine.generate}.
     * @type {{ completions: { create: CreateCompletion } }}
     */
    this.chat = { completions: { create } };
  }

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
  static async load(model, options) {
    return Engine.#begin("load", model, options);
  }

  /**
   * What there is to know of a model before it is loaded, from its headers: of each file with weights, the first 8 MB are
   * downloaded, and kept for a load. Rejects as {@link Engine.load} does.
   * @param {Model} model
   * @param {Omit<LoadOptions, "assistant_model">} [options]
   * @returns {Promise<Inspection>}
   */
  static async inspect(model, options) {
    const engine = await Engine.#begin("inspect", model, options);
    engine.dispose();
    return /** @type {any} */ (engine.#info);
  }

  /**
   * @param {"load" | "inspect"} method
   * @param {Model} model
   * @param {LoadOptions} [options]
   */
  static async #begin(method, model, options) {
    const { assistant_model, onProgress, signal, endpoint, revision, token, cache = true, persist = false, worker, wasm, ...rest } = checked(options);
    if (signal?.aborted) throw aborted(signal);
    if (method === "load") requireWebGpu();
    // The browser may refuse, or ask the user; nothing waits for it.
    const remote = [model, assistant_model].some((files) => typeof files === "string" || files instanceof URL);
    if (persist && cache && remote) navigator.storage?.persist?.().catch(() => {});
    const hub = { endpoint, revision, token, cache };
    // Not every place that has WebGPU has an address of its own.
    const base = globalThis.document?.baseURI ?? globalThis.location?.href;
    const args = {
      model: portable("model", model),
      assistant: assistant_model && portable("assistant_model", assistant_model),
      wasm: wasm && absolute("wasm", wasm, base),
      hub,
      base,
      options: rest,
    };
    const engine = new Engine(args, onProgress, worker && absolute("worker", worker, base));
    const stop = () => engine.#dispose(aborted(signal));
    signal?.addEventListener("abort", stop, { once: true });
    try {
      await engine.#start(method);
      return engine;
    } catch (error) {
      engine.dispose();
      throw error;
    } finally {
      signal?.removeEventListener("abort", stop);
    }
  }

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
  generate(prompt, options) {
    const { signal, onProgress, ...rest } = options ?? {};
    /** @type {Queue<Piece>} */
    const pieces = new Queue();
    const plain = ArrayBuffer.isView(prompt) ? Array.from(prompt) : prompt;
    const onEvent = (/** @type {{ tokens: Token[] } | PrefillProgress} */ event) => {
      if ("tokens" in event) pieces.push({ text: event.tokens.map(({ text }) => text).join(""), tokens: event.tokens });
      else onProgress?.(event);
    };
    const call = this.#call("generate", { prompt: plain, options: rest }, onEvent, { signal, onProgress });
    const result = call.result.then((/** @type {Generation} */ generation) => {
      this.#last = generation.stats;
      if (signal?.aborted && generation.finish_reason === "aborted") throw aborted(signal, generation);
      return generation;
    });
    result.then(() => pieces.end(), (error) => pieces.end(error));
    /** @type {AsyncIterableIterator<Piece, undefined>} */
    const reader = {
      async next() {
        const value = await pieces.shift();
        return value ? { done: false, value } : { done: true, value };
      },
      return: async () => {
        pieces.clear();
        pieces.end();
        this.#abort(call.id);
        return { done: true, value: undefined };
      },
      [Symbol.asyncIterator]: () => reader,
    };
    return { result, [Symbol.asyncIterator]: () => reader };
  }

  /**
   * The tokens of a text, or of messages under the chat template, as `generate` would see them.
   * Rejects with `bad-option`, `bad-tokenizer` or `bad-template`.
   * @param {string | readonly Message[]} prompt
   * @param {Pick<GenerateOptions, TemplateOption>} [options]
   * @returns {Promise<number[]>} ids
   */
  tokenize(prompt, options) {
    return this.#call("encode", { prompt, options: options ?? {} }).result;
  }

  /**
   * The text of some tokens. Rejects with `bad-option` or `bad-tokenizer`.
   * @param {readonly number[] | Uint32Array} ids
   * @param {{ skip_special_tokens?: boolean }} [options] `skip_special_tokens`: leave out end tokens and the like; true by
   *   default
   * @returns {Promise<string>}
   */
  async detokenize(ids, options) {
    const { skip_special_tokens = true } = options ?? {};
    const plain = ArrayBuffer.isView(ids) ? Array.from(ids) : ids;
    if (!Array.isArray(plain) || plain.some((id) => id !== id >>> 0)) throw badOption("ids", ids, "a list of token ids");
    return this.#call("decode", { ids: plain, skip_special: skip_special_tokens }).result;
  }

  /** Statistics of the last generation, under vLLM's names; null before the first. */
  get stats() {
    return this.#last;
  }

  /** The GPU. */
  get device() {
    return this.#info.device;
  }

  /** Bytes on the GPU, by model; `draft` is null without one. */
  get memory() {
    return this.#info.memory;
  }

  /** What a person should know of the loading: that nothing could be kept, for example. @returns {string[]} */
  get warnings() {
    return this.#info.warnings;
  }

  /**
   * What was asked of the GPU since loading began.
   * @returns {Promise<Counters>}
   */
  counters() {
    return this.#call("counters", {}).result;
  }

  /** Ends the worker and frees the GPU's memory. What still runs, and what is asked later, rejects with `aborted`. */
  dispose() {
    this.#dispose(aborted());
  }

  /** @param {ForetokenError} reason */
  #dispose(reason) {
    this.#end ??= reason;
    this.#stop(this.#end);
  }

  /** Starts a worker and loads the models into it. What is asked meanwhile waits in the worker. */
  async #start(method = "load") {
    const { args, onProgress, worker: address } = this.#load;
    const worker = startWorker(address, (message) => this.#stop(new ForetokenError({ code: "internal", message })));
    this.#worker = worker;
    worker.onmessage = ({ data }) => this.#hear(data);
    try {
      this.#info = await this.#send(method, args, onProgress).result;
    } catch (error) {
      if (this.#worker === worker) this.#stop(error);
      throw error;
    }
  }

  /**
   * @param {string} method one of worker.js
   * @param {object} args
   * @param {(event: any) => void} [onEvent]
   * @param {Pick<GenerateOptions, "signal" | "onProgress">} [own] options that the worker does not see
   */
  #call(method, args, onEvent, own) {
    // After a breakdown: whoever waits in the new worker hears why it could not be set up.
    if (!this.#worker && !this.#end) this.#start().catch(() => {});
    return this.#send(method, args, onEvent, own);
  }

  /**
   * @param {string} method
   * @param {object} args
   * @param {(event: any) => void} [onEvent]
   * @param {Pick<GenerateOptions, "signal" | "onProgress">} [own]
   */
  #send(method, args, onEvent = () => {}, own = {}) {
    const { signal } = own;
    const id = this.#next++;
    const stop = () => this.#abort(id, signal);
    /** @type {Promise<any>} */
    const result = new Promise((resolve, reject) => {
      if (this.#end) throw this.#end;
      checked(own);
      if (signal?.aborted) throw aborted(signal);
      try {
        /** @type {Worker} */ (this.#worker).postMessage({ id, method, args });
      } catch (error) {
        throw new ForetokenError({ code: "bad-option", message: `an option cannot be sent to the worker: ${error.message}` });
      }
      this.#calls.set(id, { resolve, reject, onEvent });
      signal?.addEventListener("abort", stop, { once: true });
    });
    // Whoever only iterates hears of it there.
    result.catch(() => {}).then(() => signal?.removeEventListener?.("abort", stop));
    return { id, result };
  }

  /**
   * Ends the call that runs, once the worker has heard of it; takes back one that waits, at once.
   * @param {number} id
   * @param {AbortSignal | null} [signal]
   */
  #abort(id, signal) {
    const call = this.#calls.get(id);
    if (!call) return;
    this.#worker?.postMessage({ id, method: "abort" });
    // The worker answers in this order.
    const [running] = this.#calls.keys();
    if (id === running) return;
    this.#calls.delete(id);
    call.reject(aborted(signal));
  }

  /** @param {any} message as worker.js describes them */
  #hear({ id, event, result, error, fatal, hire, dismiss }) {
    if (fatal) return this.#stop(new ForetokenError(fatal));
    if (hire !== undefined) return this.#hire(hire);
    if (dismiss !== undefined) return this.#dismiss(dismiss);
    const call = this.#calls.get(id);
    if (!call) return;
    if (event !== undefined) return call.onEvent(event);
    this.#calls.delete(id);
    if (error) call.reject(new ForetokenError(error));
    else call.resolve(result);
  }

  /** Starts a worker for a target and brings it together with the one that asked for it. @param {number} id */
  #hire(id) {
    const asking = /** @type {Worker} */ (this.#worker);
    const failed = (/** @type {string} */ reason) => asking.postMessage({ hired: id, failed: reason });
    const { port1, port2 } = new MessageChannel();
    asking.postMessage({ hired: id, port: port1 }, [port1]);
    try {
      const worker = startWorker(this.#load.worker, failed);
      worker.postMessage({ serve: port2 }, [port2]);
      this.#hired.set(id, worker);
    } catch ({ message }) {
      failed(message);
    }
  }

  /** @param {number} id */
  #dismiss(id) {
    this.#hired.get(id)?.terminate();
    this.#hired.delete(id);
  }

  /**
   * Ends the workers; what waits for them rejects. The next call starts another, unless the engine was disposed of.
   * @param {ForetokenError} reason
   */
  #stop(reason) {
    this.#worker?.terminate();
    this.#worker = null;
    for (const id of [...this.#hired.keys()]) this.#dismiss(id);
    const calls = [...this.#calls.values()];
    this.#calls.clear();
    for (const { reject } of calls) reject(reason);
  }
}

/**
 * A worker with the engine in it. Throws where none may be started.
 * @param {string | undefined} address
 * @param {(reason: string) => void} failed hears that it could not be started after all
 */
function startWorker(address, failed) {
  try {
    // Bundlers look for the second form.
    const worker = address
      ? new Worker(address, { type: "module" })
      : new Worker(new URL("./worker.js", import.meta.url), { type: "module" });
    worker.onerror = (event) => {
      event.preventDefault();
      failed(event.message || "the worker could not be started: are worker.js, foretoken.js and foretoken_bg.wasm beside engine.js, or where the option `worker` says? The README says what bundlers need");
    };
    return worker;
  } catch (error) {
    // From another origin, or against a policy of the page.
    throw new ForetokenError({ code: "internal", message: `the worker could not be started: ${error.message}` });
  }
}

/** The types of options that the engine's module does not see. */
const TYPES = { onProgress: "function", endpoint: "string", revision: "string", token: "string", cache: "boolean", persist: "boolean" };

/**
 * The options that say something: null stands for the default.
 * @template {LoadOptions | Pick<GenerateOptions, "signal" | "onProgress">} T
 * @param {T | null} [options]
 * @returns {T}
 */
function checked(options) {
  const given = Object.entries(options ?? {}).filter(([, value]) => value != null);
  for (const [name, value] of given) {
    const type = TYPES[/** @type {keyof typeof TYPES} */ (name)];
    if (type && typeof value !== type) throw badOption(name, value, `a ${type}`);
    if (name === "signal" && typeof value.addEventListener !== "function") throw badOption(name, value, "an AbortSignal");
  }
  return /** @type {T} */ (Object.fromEntries(given));
}

/**
 * @param {string} option
 * @param {string | URL} address
 * @param {string} [base]
 */
function absolute(option, address, base) {
  try {
    return new URL(address, base).href;
  } catch {
    throw badOption(option, address, "a URL");
  }
}

/** @param {string} option @param {any} model what a message can carry */
function portable(option, model) {
  if (model instanceof URL) return model.href;
  const files = typeof FileList !== "undefined" && model instanceof FileList ? [...model] : model;
  const known = Array.isArray(files) ? files.every((file) => file instanceof Blob) : typeof files === "string" || files?.getFileHandle;
  if (!known) throw badOption(option, model, "owner/name on the Hub, a URL, files");
  return files;
}

function requireWebGpu() {
  if (globalThis.navigator?.gpu) return;
  const reason = globalThis.isSecureContext
    ? "this browser has no WebGPU, or it is switched off. Chrome and Edge 113 or later have it, Safari 26 and Firefox 141 on Windows; " +
      "on Linux start Chrome with --enable-unsafe-webgpu --enable-features=Vulkan"
    : "WebGPU needs a secure page: https, or localhost";
  throw new ForetokenError({ code: "webgpu-unavailable", message: `no usable GPU: ${reason}`, detail: { reason } });
}
