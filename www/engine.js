/**
 * foretoken in a page: language models on the user's own GPU, made fast by lossless speculative decoding.
 * The engine runs in a worker of its own; this is its remote control. Importing it touches nothing: a server may.
 */
import { Conversation } from "./conversation.js";
import { ForetokenError, aborted, badOption, failure, onDemand } from "./error.js";
import { checked, readLoad } from "./options.js";
import { Queue } from "./queue.js";

/**
 * @import { Candidate, Counters, DeviceInfo, EmbedOptions, GenerateOptions, Generation, GenerationStream, Inspection, LoadOptions, Memory,
 *   Message, Model, Piece, PrefillProgress, Progress, Prompt, Score, Server, Skipped, Stats, TemplateOption, Token } from "./api.js"
 * @import { ChatRequest, CreateCompletion, CreateEmbeddingResponse, EmbeddingRequest, RequestOptions } from "./chat.js"
 * @import { ConversationOptions } from "./conversation.js"
 * @import { FromWorker, Loading, Method, Methods } from "./protocol.js"
 * @import { SavedChatInfo } from "./kept.js"
 * @import { Spawned } from "./spawn.js"
 * @import { ToolFormat } from "./tools.js"
 */

export { Conversation, ForetokenError };

const shapes = () => onDemand(import("./chat.js"));
const kept = () => onDemand(import("./kept.js"));

/** A copy without proxies, such as Vue makes of what components hold: the browser clones none. @type {<T>(value: T) => T} */
function plain(value) {
  const given = /** @type {any} */ (value);
  if (Array.isArray(given)) return /** @type {any} */ (given.map(plain));
  if (!given || Object.getPrototypeOf(given) !== Object.prototype) return given;
  return /** @type {any} */ (Object.fromEntries(Object.entries(given).map(([name, value]) => [name, plain(value)])));
}

/** Returns a list of texts as it is, and one of a single text. @param {string} option @param {any} texts @returns {any[]} */
function listed(option, texts) {
  if (typeof texts !== "string" && !texts?.[Symbol.iterator]) throw badOption(option, texts, "a text, or a list of texts or token ids");
  return typeof texts === "string" ? [texts] : [...texts];
}

/** A model, and the draft model that guesses for it, on the GPU. Calls are answered one after the other. */
export class Engine {
  /**
   * What is kept of the models that were downloaded. `delete` takes a model's name or URL, nothing for all of them; it is
   * false when there was none, or when a page is loading it just now.
   */
  static cache = {
    list: async () => (await kept()).listModels(),
    delete: async (/** @type {string | URL | undefined} */ model) => (await kept()).removeModel(model),
  };

  /** Vue's mark for objects that it must not wrap: private fields belong to the object itself. @ignore */
  __v_skip = true;
  /** @type {Map<number, { resolve: Function, reject: Function, onEvent: Function, signal?: AbortSignal, method: Method }>} */
  #calls = new Map();
  #next = 0;
  /** @type {Spawned | null} none after it broke down, until it is needed again */
  #worker = null;
  /** Workers that have a target each, where there are several. @type {Map<number, Spawned>} */
  #hired = new Map();
  /** How to load the models, at first and into a new worker. */
  #load;
  /** @type {ForetokenError | null} why nothing works any more */
  #end = null;
  /** @type {Stats | null} */
  #last = null;
  /** @type {{ device: DeviceInfo, memory: Memory, warnings: string[], toolFormat: ToolFormat | null }} */
  #info = /** @type {any} */ ({ device: null, memory: null, warnings: [], toolFormat: null });

  /**
   * @private Use {@link Engine.load}.
   * @param {Loading} args
   * @param {((progress: Progress) => void) | undefined} onProgress
   * @param {(failed: (reason: string) => void) => Spawned} spawn starts a worker
   */
  constructor(args, onProgress, spawn) {
    this.#load = { args, onProgress, spawn };
    /** Candidates before the one that serves, and why they do not. @type {readonly Skipped[]} */
    this.skipped = [];
    /** @type {any} its result depends on `stream` */
    const create = async (/** @type {ChatRequest} */ body, /** @type {RequestOptions} */ request) => (await shapes()).complete(this, body, request);
    /** @param {ConversationOptions} [options] */
    const converse = (options) => new Conversation(this, checked(options));
    /** @param {string} name */
    const restore = async (name) => {
      const { messages, options } = await this.#call("restore", { name }).result;
      return new Conversation(this, { ...options, messages });
    };
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
    this.chat = Object.assign(converse, {
      completions: { create },
      restore,
      list: async () => (await kept()).listChats(),
      delete: async (/** @type {string} */ name) => (await kept()).removeChat(name),
    });
    /**
     * OpenAI's embeddings, as {@link Engine.embed} computes them.
     * @type {{ create: (body: EmbeddingRequest, request?: RequestOptions) => Promise<CreateEmbeddingResponse> }}
     */
    this.embeddings = { create: async (body, request) => (await shapes()).embeddings(this, body, request) };
  }

  /**
   * Loads a model, and a draft model if one is named.
   *
   * Rejects with a {@link ForetokenError}: `webgpu-unavailable`, `gpu-blocked`, `out-of-gpu-memory`, `device-lost`;
   * `not-found`, `network`, `integrity`; `bad-config`, `bad-weights`, `bad-tokenizer`, `bad-template`,
   * `unsupported-architecture`; `bad-option`, `aborted`, `internal`; of servers `unauthorized`, `overloaded`, `tokenizer-mismatch`; of candidates
   * `download-too-large`.
   * Of several candidates, the first serves that this machine can run and this page can reach; `skipped` says why others do not.
   * @param {Model | Server | readonly Candidate[]} model
   * @param {LoadOptions} [options]
   * @returns {Promise<Engine>}
   */
  static async load(model, options) {
    const given = /** @type {any} */ (model);
    checked(options);
    const areCandidates = Array.isArray(given) ? !(given[0] instanceof Blob) : given?.url && !given.tokenizer;
    if (areCandidates) return (await onDemand(import("./candidates.js"))).loadFirst(given, options);
    return Engine.#begin("load", given, options);
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
    const { args, onProgress, signal, spawn } = await readLoad(method, model, options);
    if (signal?.aborted) throw aborted(signal);
    const engine = new Engine(args, onProgress, spawn);
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
    const call = this.#call("generate", { prompt: plain, options: rest }, onEvent, options);
    const result = call.result.then((/** @type {Generation} */ generation) => {
      this.#last = generation.stats;
      if (signal?.aborted && generation.finish_reason === "aborted") throw aborted(signal, generation);
      return generation;
    });
    result.then(
      () => pieces.end(),
      (error) => pieces.end(error),
    );
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
   * The embeddings of texts [hidden]: hidden states after the final norm, pooled. Not where several workers have the models
   * (`sp_degree`, `draft_device`). Rejects as {@link Engine.generate} does.
   * @param {string | readonly Prompt[]} texts one text, or a list of texts, chats or token ids
   * @param {EmbedOptions} [options]
   * @returns {Promise<Float32Array[]>} one each
   */
  async embed(texts, options) {
    const { pooling = "mean", normalize = true, signal } = checked(options, { pooling: null, normalize: "boolean", signal: null });
    return this.#call("embed", { texts: listed("texts", texts), pooling: String(pooling), normalize }, undefined, { signal }).result;
  }

  /**
   * How likely each continuation of a prompt is, by the model's logits as they are. The prompt is read once, and stays cached. Where
   * and how it rejects, {@link Engine.embed} says.
   * @param {Prompt} prompt
   * @param {string | readonly (string | readonly number[])[]} continuations one text, or a list of texts, with the space before them, or
   *   token ids
   * @param {{ signal?: AbortSignal }} [options]
   * @returns {Promise<Score[]>} one each
   */
  async score(prompt, continuations, options) {
    const { signal } = checked(options, { signal: null });
    return this.#call("score", { prompt, continuations: listed("continuations", continuations) }, undefined, { signal }).result;
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
    const { skip_special_tokens = true } = checked(options, { skip_special_tokens: "boolean" });
    const plain = ArrayBuffer.isView(ids) ? Array.from(ids) : ids;
    if (!Array.isArray(plain) || plain.some((id) => id !== id >>> 0)) throw badOption("ids", ids, "a list of token ids");
    return this.#call("decode", { ids: plain, skip_special: skip_special_tokens }).result;
  }

  /**
   * What {@link Conversation.save} does.
   * @param {string} name @param {readonly Message[]} messages @param {object} options
   * @returns {Promise<number>} tokens that are not read again
   */
  saveChat(name, messages, options) {
    return this.#call("save", { name, messages, options }).result;
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

  /** How the model's chat template writes calls of tools; null where that is not known. */
  get toolFormat() {
    return this.#info.toolFormat;
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

  /** Starts a worker and loads the models into it. What is asked meanwhile waits in the worker. @param {"load" | "inspect"} [method] */
  async #start(method = "load") {
    const { args, onProgress, spawn } = this.#load;
    const worker = spawn((message) => this.#worker === worker && this.#stop(failure("internal", message)));
    this.#worker = worker;
    worker.onmessage = ({ data }) => this.#hear(data);
    try {
      this.#info = /** @type {any} */ (await this.#send(method, args, onProgress).result);
    } catch (error) {
      if (this.#worker === worker) this.#stop(error);
      throw error;
    }
  }

  /**
   * @template {Method} M
   * @param {M} method
   * @param {Methods[M]["args"]} args
   * @param {(event: Methods[M]["event"]) => void} [onEvent]
   * @param {GenerateOptions} [own] options, those included that the worker does not see
   */
  #call(method, args, onEvent, own) {
    // After a breakdown: whoever waits in the new worker hears why it could not be set up.
    if (!this.#worker && !this.#end) this.#start().catch(() => {});
    return this.#send(method, args, onEvent, own);
  }

  /**
   * @template {Method} M
   * @param {M} method
   * @param {Methods[M]["args"]} args
   * @param {(event: Methods[M]["event"]) => void} [onEvent]
   * @param {GenerateOptions} [own]
   */
  #send(method, args, onEvent = () => {}, own) {
    const { signal } = own ?? {};
    const id = this.#next++;
    const stop = () => this.#abort(id);
    /** @type {Promise<Methods[M]["result"]>} */
    const result = new Promise((resolve, reject) => {
      if (this.#end) throw this.#end;
      if (!this.#worker) throw failure("internal", "the worker could not be started again");
      checked(own ?? /** @type {any} */ (args).options);
      if (signal?.aborted) throw aborted(signal);
      try {
        this.#worker.postMessage(/** @type {any} */ ({ type: "call", id, method, args: plain(args) }), []);
      } catch (error) {
        throw failure("bad-option", `an option cannot be sent to the worker: ${error.message}`);
      }
      this.#calls.set(id, { resolve, reject, onEvent, signal, method });
      signal?.addEventListener("abort", stop, { once: true });
    });
    // Whoever only iterates hears of it there.
    result.catch(() => {}).then(() => signal?.removeEventListener?.("abort", stop));
    return { id, result };
  }

  /** Ends the call that runs, once the worker has heard of it; takes back one that waits, at once. @param {number} id */
  #abort(id) {
    if (!this.#calls.has(id)) return;
    this.#worker?.postMessage({ type: "abort", id }, []);
    // The worker answers in this order.
    const [running] = this.#calls.keys();
    if (id !== running) this.#hear({ type: "error", id, error: aborted() });
  }

  /** @param {FromWorker} message */
  #hear(message) {
    if (message.type === "fatal") return this.#stop(new ForetokenError(message.error));
    if (message.type === "hire") return this.#hire(message.id);
    if (message.type === "dismiss") return this.#dismiss(message.id);
    const call = this.#calls.get(message.id);
    if (!call) return;
    if (message.type === "event") return call.onEvent(message.event);
    this.#calls.delete(message.id);
    if (message.type === "result") return call.resolve(message.result);
    const { signal, method } = call;
    const error = new ForetokenError(message.error, signal?.aborted ? { cause: signal.reason } : undefined);
    if (/** @type {any} */ (error.detail)?.option !== "options") return call.reject(error);
    const refused = import("./trouble.js").then(
      ({ suggest }) => suggest(error, method),
      () => error,
    );
    refused.then(/** @type {any} */ (call.reject));
  }

  /** Starts a worker for a target and brings it together with the one that asked for it. @param {number} id */
  #hire(id) {
    const asking = /** @type {Spawned} */ (this.#worker);
    const failed = (/** @type {string} */ reason) => asking.postMessage({ type: "not_hired", id, reason }, []);
    const { port1, port2 } = new MessageChannel();
    asking.postMessage({ type: "hired", id, port: port1 }, [port1]);
    try {
      const worker = this.#load.spawn(failed);
      worker.postMessage({ type: "serve", port: port2 }, [port2]);
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
