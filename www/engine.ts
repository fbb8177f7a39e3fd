/**
 * foretoken in a page: language models on the user's own GPU, made fast by lossless speculative decoding.
 * The engine runs in a worker of its own; this is its remote control. Importing it touches nothing: a server may.
 */
import { Conversation } from "./conversation.js";
import { ForetokenError, aborted, badOption, failure, onDemand } from "./error.js";
import { checked, readLoad } from "./options.js";
import { Queue } from "./queue.js";
import type {
  Candidate,
  Counters,
  DeviceInfo,
  EmbedOptions,
  GenerateOptions,
  Generation,
  GenerationStream,
  Inspection,
  LoadOptions,
  Memory,
  Message,
  Model,
  Piece,
  PrefillProgress,
  Progress,
  Prompt,
  Score,
  Server,
  Skipped,
  Stats,
  TemplateOption,
  Token,
} from "./api.js";
import type { ChatRequest, CreateCompletion, CreateEmbeddingResponse, EmbeddingRequest, RequestOptions } from "./chat.js";
import type { ConversationOptions } from "./conversation.js";
import type { FromWorker, Loading, Method, Methods } from "./protocol.js";
import type { SavedChatInfo } from "./storage.js";
import type { WorkerHandle } from "./start-worker.js";
import type { ToolFormat } from "./tools.js";

export { Conversation, ForetokenError };

const shapes = () => onDemand(import("./chat.js"));
const storage = () => onDemand(import("./storage.js"));

/** A copy without proxies, such as Vue makes of what components hold: the browser clones none. */
function plain<T>(value: T): T {
  const given = value as any;
  if (Array.isArray(given)) return given.map(plain) as T;
  if (!given || Object.getPrototypeOf(given) !== Object.prototype) return given;
  return Object.fromEntries(Object.entries(given).map(([name, value]) => [name, plain(value)])) as T;
}

/** Returns a list of texts as it is, and one of a single text. */
function listed(option: string, texts: any): any[] {
  if (typeof texts !== "string" && !texts?.[Symbol.iterator]) throw badOption(option, texts, "a text, or a list of texts or token ids");
  return typeof texts === "string" ? [texts] : [...texts];
}

/** A model, and the draft model that guesses for it, on the GPU. Calls are answered one after the other. */
export class Engine {
  /**
   * The cache of downloaded models. `delete` takes a model's name or URL, nothing for all of them; it is
   * false when there was none, or when a page is loading it just now.
   */
  static cache = {
    list: async () => (await storage()).listModels(),
    delete: async (model: string | URL | undefined) => (await storage()).removeModel(model),
  };

  /**
   * Vue's mark for objects that it must not wrap: private fields belong to the object itself.
   * @ignore
   */
  __v_skip = true;
  #calls: Map<
    number,
    { resolve: (value: any) => void; reject: (reason: unknown) => void; onEvent: (event: any) => void; signal?: AbortSignal; method: Method }
  > = new Map();
  #next = 0;
  /** none after it broke down, until it is needed again */
  #worker: WorkerHandle | null = null;
  /** Workers that the first one requested: instances of models, threads. */
  #moreWorkers: Map<number, WorkerHandle> = new Map();
  /** How to load the models, at first and into a new worker. */
  #load;
  /** why nothing works any more */
  #end: ForetokenError | null = null;
  #last: Stats | null = null;
  #info: { device: DeviceInfo; memory: Memory; warnings: string[]; toolFormat: ToolFormat | null } = {
    device: null,
    memory: null,
    warnings: [],
    toolFormat: null,
  } as any;

  declare skipped: readonly Skipped[];
  declare chat: ((options?: ConversationOptions) => Conversation) & {
    completions: { create: CreateCompletion };
    restore: (name: string) => Promise<Conversation>;
    list: () => Promise<SavedChatInfo[]>;
    delete: (name: string) => Promise<boolean>;
  };
  declare embeddings: { create: (body: EmbeddingRequest, request?: RequestOptions) => Promise<CreateEmbeddingResponse> };

  /**
   * @private Use {@link Engine.load}.
   * @param startWorker starts a worker
   */
  constructor(args: Loading, onProgress: ((progress: Progress) => void) | undefined, startWorker: (failed: (reason: string) => void) => WorkerHandle) {
    this.#load = { args, onProgress, startWorker };
    /** Candidates before the one that serves, and why they do not. */
    this.skipped = [];
    /** its result depends on `stream` */
    const create: any = async (body: ChatRequest, request: RequestOptions) => (await shapes()).complete(this, body, request);
    const converse = (options?: ConversationOptions) => new Conversation(this, checked(options));
    const restore = async (name: string) => {
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
     */
    this.chat = Object.assign(converse, {
      completions: { create },
      restore,
      list: async () => (await storage()).listChats(),
      delete: async (name: string) => (await storage()).removeChat(name),
    });
    /** OpenAI's embeddings, as {@link Engine.embed} computes them. */
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
   */
  static async load(model: Model | Server | readonly Candidate[], options?: LoadOptions): Promise<Engine> {
    const given = model as any;
    checked(options);
    const areCandidates = Array.isArray(given) ? !(given[0] instanceof Blob) : given?.url && !given.tokenizer;
    if (areCandidates) return (await onDemand(import("./candidates.js"))).loadFirst(given, options);
    return Engine.#begin("load", given, options);
  }

  /**
   * Returns the facts about a model that its headers contain, before it is loaded: of each file with weights, the first 8 MB are
   * downloaded, and kept for a load. Rejects as {@link Engine.load} does.
   */
  static async inspect(model: Model, options?: Omit<LoadOptions, "assistant_model">): Promise<Inspection> {
    const engine = await Engine.#begin("inspect", model, options);
    engine.dispose();
    return engine.#info as any;
  }

  static async #begin(method: "load" | "inspect", model: Model, options?: LoadOptions) {
    const { args, onProgress, signal, startWorker } = await readLoad(method, model, options);
    if (signal?.aborted) throw aborted(signal);
    const engine = new Engine(args, onProgress, startWorker);
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
   * Continues a prompt, at once or after the calls before. Iterate over the pieces, once, or await `result`, or both; leaving
   * the loop early ends the generation, and so does the signal. What is not read is written all the same.
   *
   * Both reject with a {@link ForetokenError}: `bad-option`, `bad-template`, `context-full`, `non-finite-logits`,
   * `device-lost`, `gpu-blocked`, `out-of-gpu-memory`, `aborted`, `internal`. The engine stays usable:
   * the next call sets up again what broke down, the GPU's device or the worker.
   */
  generate(prompt: Prompt, options?: GenerateOptions): GenerationStream {
    const { signal, onProgress, ...rest } = options ?? {};
    const pieces: Queue<Piece> = new Queue();
    const plain = ArrayBuffer.isView(prompt) ? Array.from(prompt) : prompt;
    const onEvent = (event: { tokens: Token[] } | PrefillProgress) => {
      if ("tokens" in event) pieces.push({ text: event.tokens.map(({ text }) => text).join(""), tokens: event.tokens });
      else onProgress?.(event);
    };
    const call = this.#call("generate", { prompt: plain, options: rest }, onEvent, options);
    const result = call.result.then((generation: Generation) => {
      this.#last = generation.stats;
      if (signal?.aborted && generation.finish_reason === "aborted") throw aborted(signal, generation);
      return generation;
    });
    result.then(
      () => pieces.end(),
      (error) => pieces.end(error),
    );
    const reader: AsyncIterableIterator<Piece, undefined> = {
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
   * @param texts one text, or a list of texts, chats or token ids
   * @returns one each
   */
  async embed(texts: string | readonly Prompt[], options?: EmbedOptions): Promise<Float32Array[]> {
    const { pooling = "mean", normalize = true, signal } = checked(options, { pooling: null, normalize: "boolean", signal: null });
    return this.#call("embed", { texts: listed("texts", texts), pooling: String(pooling), normalize }, undefined, { signal }).result;
  }

  /**
   * How likely each continuation of a prompt is, by the model's logits as they are. The prompt is read once, and stays cached. Where
   * and how it rejects, {@link Engine.embed} says.
   * @param continuations one text, or a list of texts, with the space before them, or token ids
   * @returns one each
   */
  async score(prompt: Prompt, continuations: string | readonly (string | readonly number[])[], options?: { signal?: AbortSignal }): Promise<Score[]> {
    const { signal } = checked(options, { signal: null });
    return this.#call("score", { prompt, continuations: listed("continuations", continuations) }, undefined, { signal }).result;
  }

  /**
   * The tokens of a text, or of messages under the chat template, as `generate` would see them.
   * Rejects with `bad-option`, `bad-tokenizer` or `bad-template`.
   * @returns ids
   */
  tokenize(prompt: string | readonly Message[], options?: Pick<GenerateOptions, TemplateOption>): Promise<number[]> {
    return this.#call("encode", { prompt, options: options ?? {} }).result;
  }

  /**
   * The text of some tokens. Rejects with `bad-option` or `bad-tokenizer`.
   * @param options `skip_special_tokens`: leave out end tokens and the like; true by default
   */
  async detokenize(ids: readonly number[] | Uint32Array, options?: { skip_special_tokens?: boolean }): Promise<string> {
    const { skip_special_tokens = true } = checked(options, { skip_special_tokens: "boolean" });
    const plain = ArrayBuffer.isView(ids) ? Array.from(ids) : ids;
    if (!Array.isArray(plain) || plain.some((id) => id !== id >>> 0)) throw badOption("ids", ids, "a list of token ids");
    return this.#call("decode", { ids: plain, skip_special: skip_special_tokens }).result;
  }

  /**
   * Does what {@link Conversation.save} does.
   * @returns tokens that are not read again
   */
  saveChat(name: string, messages: readonly Message[], options: object): Promise<number> {
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

  /** Warnings about the loading: that nothing could be kept, for example. */
  get warnings(): string[] {
    return this.#info.warnings;
  }

  /** How the model's chat template writes calls of tools; null where that is not known. */
  get toolFormat() {
    return this.#info.toolFormat;
  }

  /** Returns the numbers of GPU operations since loading began. */
  counters(): Promise<Counters> {
    return this.#call("counters", {}).result;
  }

  /** Ends the worker and frees the GPU's memory. What still runs, and what is asked later, rejects with `aborted`. */
  dispose() {
    this.#dispose(aborted());
  }

  #dispose(reason: ForetokenError) {
    this.#end ??= reason;
    this.#stop(this.#end);
  }

  /** Starts a worker and loads the models into it. What is asked meanwhile waits in the worker. */
  async #start(method: "load" | "inspect" = "load") {
    const { args, onProgress, startWorker } = this.#load;
    const worker = startWorker((message) => this.#worker === worker && this.#stop(failure("internal", message)));
    this.#worker = worker;
    worker.onmessage = ({ data }) => this.#receive(data);
    try {
      this.#info = (await this.#send(method, args, onProgress).result) as any;
    } catch (error) {
      if (this.#worker === worker) this.#stop(error);
      throw error;
    }
  }

  /** @param own options, those included that the worker does not see */
  #call<M extends Method>(method: M, args: Methods[M]["args"], onEvent?: (event: Methods[M]["event"]) => void, own?: GenerateOptions) {
    // After a breakdown: calls that wait in the new worker get the reason why it could not be set up.
    if (!this.#worker && !this.#end) this.#start().catch(() => {});
    return this.#send(method, args, onEvent, own);
  }

  #send<M extends Method>(method: M, args: Methods[M]["args"], onEvent: (event: Methods[M]["event"]) => void = () => {}, own?: GenerateOptions) {
    const { signal } = own ?? {};
    const id = this.#next++;
    const stop = () => this.#abort(id);
    const result: Promise<Methods[M]["result"]> = new Promise((resolve, reject) => {
      if (this.#end) throw this.#end;
      if (!this.#worker) throw failure("internal", "the worker could not be started again");
      checked(own ?? (args as any).options);
      if (signal?.aborted) throw aborted(signal);
      try {
        this.#worker.postMessage({ type: "call", id, method, args: plain(args) } as any, []);
      } catch (error) {
        throw failure("bad-option", `an option cannot be sent to the worker: ${error.message}`);
      }
      this.#calls.set(id, { resolve, reject, onEvent, signal, method });
      signal?.addEventListener("abort", stop, { once: true });
    });
    // A caller that only iterates gets the error there.
    result.catch(() => {}).then(() => signal?.removeEventListener?.("abort", stop));
    return { id, result };
  }

  /** Ends the call that runs, once the worker has got the message; takes back one that waits, at once. */
  #abort(id: number) {
    if (!this.#calls.has(id)) return;
    this.#worker?.postMessage({ type: "abort", id }, []);
    // The worker answers in this order.
    const [running] = this.#calls.keys();
    if (id !== running) this.#receive({ type: "error", id, error: aborted() });
  }

  #receive(message: FromWorker) {
    if (message.type === "fatal") return this.#stop(new ForetokenError(message.error));
    if (message.type === "start_worker") return this.#startWorker(message.id);
    if (message.type === "end_worker") return this.#endWorker(message.id);
    const call = this.#calls.get(message.id);
    if (!call) return;
    if (message.type === "event") return call.onEvent(message.event);
    this.#calls.delete(message.id);
    if (message.type === "result") return call.resolve(message.result);
    const { signal, method } = call;
    const error = new ForetokenError(message.error, signal?.aborted ? { cause: signal.reason } : undefined);
    if ((error.detail as any)?.option !== "options") return call.reject(error);
    const refused = import("./error-hints.js").then(
      ({ suggest }) => suggest(error, method),
      () => error,
    );
    refused.then(call.reject as any);
  }

  /** Starts another worker and connects it with the one that requested it. */
  #startWorker(id: number) {
    const asking = this.#worker as WorkerHandle;
    const failed = (reason: string) => asking.postMessage({ type: "worker_failed", id, reason }, []);
    const { port1, port2 } = new MessageChannel();
    asking.postMessage({ type: "worker_started", id, port: port1 }, [port1]);
    try {
      const worker = this.#load.startWorker(failed);
      worker.postMessage({ type: "serve", port: port2 }, [port2]);
      this.#moreWorkers.set(id, worker);
    } catch ({ message }) {
      failed(message);
    }
  }

  #endWorker(id: number) {
    this.#moreWorkers.get(id)?.terminate();
    this.#moreWorkers.delete(id);
  }

  /** Ends the workers; what waits for them rejects. The next call starts another, unless the engine was disposed of. */
  #stop(reason: ForetokenError) {
    this.#worker?.terminate();
    this.#worker = null;
    for (const id of [...this.#moreWorkers.keys()]) this.#endWorker(id);
    const calls = [...this.#calls.values()];
    this.#calls.clear();
    for (const { reject } of calls) reject(reason);
  }
}
