/** The engine as a page calls it: a proxy of a worker. Importing this file has no effect, so servers may import it. */
import { Conversation } from "./conversation.js";
import { ForetokenError, aborted, badOption, failure, onDemand } from "./error.js";
import { checked, readLoad } from "./options.js";
import { Queue, streamOf } from "./queue.js";
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
import type { ReasoningFormat } from "./answers.js";
import type { ToolFormat } from "./tools.js";

export { Conversation, ForetokenError };

const shapes = () => onDemand(import("./chat.js"));
const storage = () => onDemand(import("./storage.js"));

/** Returns a copy without proxies, such as Vue's: browsers cannot clone them. */
function plain<T>(value: T): T {
  const given = value as any;
  if (Array.isArray(given)) return given.map(plain) as T;
  if (!given || Object.getPrototypeOf(given) !== Object.prototype) return given;
  return Object.fromEntries(Object.entries(given).map(([name, value]) => [name, plain(value)])) as T;
}

/** Returns a list of texts, also for a single text. */
function listed(option: string, texts: any): any[] {
  if (typeof texts !== "string" && !texts?.[Symbol.iterator]) throw badOption(option, texts, "a text, or a list of texts or token ids");
  return typeof texts === "string" ? [texts] : [...texts];
}

/** A model and its draft model. Calls are answered one after the other. */
export class Engine {
  /** The cache of downloaded models. `delete()` deletes all. It returns false if there is none, or if a page is loading it. */
  static cache = {
    list: async () => (await storage()).listModels(),
    delete: async (model: string | URL | undefined) => (await storage()).removeModel(model),
  };

  /** @ignore Forbids Vue to wrap the engine: proxies have no private fields. */
  __v_skip = true;
  #calls: Map<
    number,
    { resolve: (value: any) => void; reject: (reason: unknown) => void; onEvent: (event: any) => void; signal?: AbortSignal; method: Method }
  > = new Map();
  #next = 0;
  /** Null after a breakdown, until the next call. */
  #worker: WorkerHandle | null = null;
  /** Workers that the first one requested: instances of models, threads. */
  #moreWorkers: Map<number, WorkerHandle> = new Map();
  #load;
  /** The reason why all calls are rejected. */
  #end: ForetokenError | null = null;
  #last: Stats | null = null;
  #info: { device: DeviceInfo; memory: Memory; warnings: string[]; toolFormat: ToolFormat | null; reasoningFormat: ReasoningFormat | null } = {
    device: null,
    memory: null,
    warnings: [],
    toolFormat: null,
    reasoningFormat: null,
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
    /** Candidates before the loaded one, and why they could not be loaded. */
    this.skipped = [];
    const create: any = async (body: ChatRequest, request: RequestOptions) => (await shapes()).complete(this, body, request);
    const converse = (options?: ConversationOptions) => new Conversation(this, checked(options));
    const restore = async (name: string) => {
      const { messages, options } = await this.#call("restore", { name }).result;
      return new Conversation(this, { ...options, messages });
    };
    /**
     * `engine.chat(options)` begins a {@link Conversation}. `restore(name)` continues one that was saved in this browser; `list()` and
     * `delete(name)` manage the saved ones.
     *
     * OpenAI's chat completions: `create(body, { signal })` fulfils with a {@link ChatCompletion}, or with `stream: true` with an async
     * iterable of {@link ChatCompletionChunk}s. A stream begins when it is first read; leaving the loop ends it. Errors are those of
     * {@link Engine.generate}.
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
   * Loads a model, and a draft model if given.
   *
   * Rejects with a {@link ForetokenError}: `webgpu-unavailable`, `gpu-blocked`, `out-of-gpu-memory`, `device-lost`;
   * `not-found`, `network`, `integrity`; `bad-config`, `bad-weights`, `bad-tokenizer`, `bad-template`,
   * `unsupported-architecture`; `bad-option`, `aborted`, `internal`; of servers `unauthorized`, `overloaded`, `tokenizer-mismatch`; of candidates
   * `download-too-large`.
   * Of several candidates, the first one that this machine can run and this page can reach is loaded. `skipped` lists the others.
   */
  static async load(model: Model | Server | readonly Candidate[], options?: LoadOptions): Promise<Engine> {
    const given = model as any;
    checked(options);
    const areCandidates = Array.isArray(given) ? !(given[0] instanceof Blob) : given?.url && !given.tokenizer;
    if (areCandidates) return (await onDemand(import("./candidates.js"))).loadFirst(given, options);
    return Engine.#begin("load", given, options);
  }

  /**
   * Returns facts about a model without loading it. The first 8 MB of each file with weights are downloaded, and kept for a load.
   * Rejects as {@link Engine.load} does.
   */
  static async inspect(model: Model, options?: Omit<LoadOptions, "assistant_model">): Promise<Inspection> {
    const engine = await Engine.#begin("inspect", model, options);
    engine.close();
    return engine.#info as any;
  }

  static async #begin(method: "load" | "inspect", model: Model, options?: LoadOptions) {
    const { args, onProgress, signal, startWorker } = await readLoad(method, model, options);
    if (signal?.aborted) throw aborted(signal);
    const engine = new Engine(args, onProgress, startWorker);
    const stop = () => engine.#close(aborted(signal));
    signal?.addEventListener("abort", stop, { once: true });
    try {
      await engine.#start(method);
      return engine;
    } catch (error) {
      engine.close();
      throw error;
    } finally {
      signal?.removeEventListener("abort", stop);
    }
  }

  /**
   * Continues a prompt, after earlier calls. Iterate over the pieces, once, or await `result`, or both. Leaving the loop early ends the
   * generation, and so does the signal. A generation that nothing iterates over runs to its end.
   *
   * Both reject with a {@link ForetokenError}: `bad-option`, `bad-template`, `context-full`, `non-finite-logits`,
   * `device-lost`, `gpu-blocked`, `out-of-gpu-memory`, `aborted`, `internal`. The engine stays usable:
   * the next call restores the GPU's device or the worker.
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
    return streamOf(result, () => reader);
  }

  /**
   * Returns the embedding of each text: its hidden states after the final norm, pooled. Not with several workers (`sp_degree`,
   * `draft_device`). Rejects as {@link Engine.generate} does.
   * @param texts one text, or a list of texts, chats or token ids
   */
  async embed(texts: string | readonly Prompt[], options?: EmbedOptions): Promise<Float32Array[]> {
    const { pooling = "mean", normalize = true, signal } = checked(options, { pooling: null, normalize: "boolean", signal: null });
    return this.#call("embed", { texts: listed("texts", texts), pooling: String(pooling), normalize }, undefined, { signal }).result;
  }

  /**
   * Returns the log-probability of each continuation of a prompt, from the model's unchanged logits. The prompt is read once. Limits and
   * errors are those of {@link Engine.embed}.
   * @param continuations one text, or a list of texts, with the space before them, or token ids
   */
  async score(prompt: Prompt, continuations: string | readonly (string | readonly number[])[], options?: { signal?: AbortSignal }): Promise<Score[]> {
    const { signal } = checked(options, { signal: null });
    return this.#call("score", { prompt, continuations: listed("continuations", continuations) }, undefined, { signal }).result;
  }

  /** Returns the token ids that `generate` would read. Rejects with `bad-option`, `bad-tokenizer` or `bad-template`. */
  tokenize(prompt: string | readonly Message[], options?: Pick<GenerateOptions, TemplateOption>): Promise<number[]> {
    return this.#call("encode", { prompt, options: options ?? {} }).result;
  }

  /**
   * Returns the text of tokens. Rejects with `bad-option` or `bad-tokenizer`.
   * @param options `skip_special_tokens`: omit end tokens and the like; true by default
   */
  async detokenize(ids: readonly number[] | Uint32Array, options?: { skip_special_tokens?: boolean }): Promise<string> {
    const { skip_special_tokens = true } = checked(options, { skip_special_tokens: "boolean" });
    const plain = ArrayBuffer.isView(ids) ? Array.from(ids) : ids;
    if (!Array.isArray(plain) || plain.some((id) => id !== id >>> 0)) throw badOption("ids", ids, "a list of token ids");
    return this.#call("decode", { ids: plain, skip_special: skip_special_tokens }).result;
  }

  /** See {@link Conversation.save}. */
  saveChat(name: string, messages: readonly Message[], options: object): Promise<number> {
    return this.#call("save", { name, messages, options }).result;
  }

  /** Statistics of the latest generation, under vLLM's names; null before the first. */
  get stats() {
    return this.#last;
  }

  get device() {
    return this.#info.device;
  }

  /** Bytes on the GPU, by model. */
  get memory() {
    return this.#info.memory;
  }

  /** Warnings about loading, for example that downloads cannot be kept. */
  get warnings(): string[] {
    return this.#info.warnings;
  }

  /** How the model's chat template writes calls of tools; null if unknown. */
  get toolFormat() {
    return this.#info.toolFormat;
  }

  /** How the model's chat template marks thoughts; null if it has none. */
  get reasoningFormat() {
    return this.#info.reasoningFormat;
  }

  /** Returns the numbers of GPU operations since loading began. */
  counters(): Promise<Counters> {
    return this.#call("counters", {}).result;
  }

  /** Ends the worker and frees the GPU's memory. Running and later calls reject with `aborted`. */
  close() {
    this.#close(aborted());
  }

  /** Closes the engine at the end of a block (`using engine = await Engine.load(...)`). */
  [Symbol.dispose]() {
    this.close();
  }

  #close(reason: ForetokenError) {
    this.#end ??= reason;
    this.#stop(this.#end);
  }

  /** Starts a worker and loads the models into it. Calls wait in the worker meanwhile. */
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

  /** @param own options, including those that the worker does not get */
  #call<M extends Method>(method: M, args: Methods[M]["args"], onEvent?: (event: Methods[M]["event"]) => void, own?: GenerateOptions) {
    // After a breakdown. If the new worker fails, its waiting calls are rejected with the reason.
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

  /** Ends a running call as soon as the worker gets the message, and a waiting call at once. */
  #abort(id: number) {
    if (!this.#calls.has(id)) return;
    this.#worker?.postMessage({ type: "abort", id }, []);
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

  /** Ends the workers and rejects all calls. The next call starts another worker, unless the engine is closed. */
  #stop(reason: ForetokenError) {
    this.#worker?.terminate();
    this.#worker = null;
    for (const id of [...this.#moreWorkers.keys()]) this.#endWorker(id);
    const calls = [...this.#calls.values()];
    this.#calls.clear();
    for (const { reject } of calls) reject(reason);
  }
}
