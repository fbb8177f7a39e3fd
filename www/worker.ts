/**
 * The engine's worker: one model pair, one call after the other, for one page or, as a SharedWorker, for several. protocol.ts describes the
 * messages. For several targets or threads it requests more workers of this kind (instance.ts).
 */
import { InstanceWorkers, type StartedWorker } from "./instance-workers.js";
import { withoutQuery } from "./cache.js";
import { aborted, badOption, failure } from "./error.js";
import init, { connect, inspect, load, loadParallel } from "./foretoken.js";
import initGrammars, { Grammars } from "./grammar.js";
import { transport } from "./http.js";
import { orders, work } from "./instance.js";
import type { FromShared, FromWorker, Loaded, Method, Methods, ToWorker } from "./protocol.js";
import { restore as restoreChat, save as saveChat } from "./saved-chats.js";
import { adapterName, explain, findAdapter, opening, rising } from "./loading.js";
import { Threads } from "./threads.js";

/** The shortest module with an instruction of relaxed SIMD. */
const RELAXED = [0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 15, 1, 13, 0, 65, 1, 253, 15, 65, 2, 253, 15, 253, 128, 2, 11];

/** Starts the engine's module from an address or, without one, the best module for this browser. */
async function start(wasm: string | undefined, { device = "auto" }: { device?: unknown }) {
  findAdapter(device === "auto");
  if (!wasm && WebAssembly.validate(Uint8Array.from(RELAXED))) {
    try {
      return await init({ module_or_path: new URL("relaxed_bg.wasm", import.meta.url) });
    } catch {
      // An app may not serve this file.
    }
  }
  return begin(init, wasm ?? new URL("foretoken_bg.wasm", import.meta.url));
}

/** Starts a WebAssembly module. Rejects with `network` if it is not at its address, or has another version. */
async function begin<T>(init: (from: { module_or_path: string | URL }) => Promise<T>, address: string | URL) {
  try {
    return await init({ module_or_path: address });
  } catch (error) {
    const url = withoutQuery(String(address));
    const advice = "the package's .wasm files belong beside worker.js, or where the option `wasm` says, and are of one version";
    // The message may hold the address.
    throw failure("network", `${url} could not be started: ${withoutQuery(error.message)}: ${advice}`, { url });
  }
}

let session: import("./foretoken.js").Session;
/** Workers of several targets. */
let instances: InstanceWorkers | null = null;
let memory: WebAssembly.Memory;
/** The answer to all pages that load the same models. */
let loaded: Loaded | null = null;
/** Callbacks of pages that wait for the models. */
const watching: Set<(event: unknown) => void> = new Set();
let warnings: string[] = [];
const warn = (text: string) => void warnings.push(text);
/** Callbacks of requested workers, by id. */
const requested: Map<number, (answer: Extract<ToWorker, { type: "worker_started" | "worker_failed" }>) => void> = new Map();
let requests = 0;

/** Requests a worker from the page. Rejects if it cannot be started. */
function requestWorker(): Promise<StartedWorker> {
  const id = requests++;
  send({ type: "start_worker", id });
  return new Promise((resolve, reject) => {
    let fail: (reason: string) => void;
    const failed = new Promise<string>((resolve) => (fail = resolve));
    const terminate = () => {
      send({ type: "end_worker", id });
      requested.delete(id);
    };
    failed.then((reason) => {
      terminate();
      reject(failure("internal", reason));
    });
    requested.set(id, (answer) => {
      if (answer.type === "worker_failed") return fail(answer.reason);
      const { port } = answer;
      // Firefox loses shared memory that is sent to a port before the port is in its worker, so the worker sends first.
      port.onmessage = () => resolve({ port, terminate, failed });
    });
  });
}

const threads = () => new Threads(requestWorker, (init as any).__wbindgen_wasm_module, warn);

/** True if the session has the module of grammars. */
let hasGrammars = false;

/** Loads the module of grammars with the model's vocabulary. */
async function loadGrammars() {
  await begin(initGrammars, new URL("grammar_bg.wasm", import.meta.url));
  const vocabulary = session.vocabulary();
  if (vocabulary) session.constrainBy(new Grammars(...(vocabulary as [Uint8Array, Uint32Array, Uint32Array])));
  hasGrammars = true;
}

/** The session answers one call at a time. */
let queue = Promise.resolve();

const methods: { [M in Method]: (args: Methods[M]["args"], context: { emit: (event: any) => void; signal: AbortSignal }) => Promise<any> } = {
  async load({ model, server, assistant, wasm, hub, base, warnings: given, options }, { emit, signal }) {
    if (loaded) return loaded;
    ({ memory } = await start(wasm, options));
    warnings = [...given];
    hasGrammars = false;
    instances = null;
    const isParallel = !server && (options.sp_degree > 1 || (assistant && options.draft_device === "cpu"));
    if (isParallel && !navigator.locks) throw failure("bad-option", "sp_degree, draft_device: several workers need Web Locks, which this place does not have");
    // Several workers read the same file, each from its beginning.
    if (isParallel) emit = rising(emit);
    const { open, upload, done } = opening({ hub, base }, { emit, signal, warn });
    const assisting = assistant ? open(assistant, "assistant") : undefined;
    const files = open(model, "target");
    if (isParallel) instances = new InstanceWorkers({ target: { model }, assistant: { model: assistant }, wasm, hub, base, options }, requestWorker, emit);
    try {
      if (server) session = await connect(transport, server, files, assisting, options, upload);
      else session = await (instances ? loadParallel(files, assisting, instances, options) : load(files, assisting, threads(), options, upload));
    } finally {
      files.close?.();
      assisting?.close?.();
    }
    done();
    const device = session.device();
    device.name ||= await adapterName();
    loaded = {
      device,
      memory: instances?.memory() ?? session.memory(),
      warnings: [...warnings, ...session.warnings()],
      toolFormat: session.tool_format(),
      reasoningFormat: session.reasoning_format(),
    };
    return loaded;
  },

  async inspect({ model, wasm, hub, base, options }, context) {
    await start(wasm, options);
    const files = opening({ hub, base }, { ...context, warn }).open(model, "target");
    try {
      return { ...(await inspect(files, options)), missing_bytes: (await files.missing?.()) ?? 0 };
    } finally {
      files.close?.();
    }
  },

  async generate({ prompt, options }, { emit, signal }) {
    if (options.response_format && options.response_format.type !== "text" && !hasGrammars) await loadGrammars();
    let tokens: unknown[] = [];
    const flush = () => {
      if (tokens.length) emit({ tokens });
      tokens = [];
    };
    let leave: (event?: unknown) => void = () => {};
    const left = new Promise((resolve) => {
      leave = resolve;
    });
    signal.addEventListener("abort", leave);
    if (signal.aborted) leave();
    const writing = session.generate(
      prompt,
      options,
      (token: unknown) => {
        // The tokens of a round are sent in one message.
        if (tokens.push(token) === 1) queueMicrotask(flush);
        return !signal.aborted;
      },
      (loaded: number, total: number) => {
        emit({ phase: "prefill", loaded, total });
        return !signal.aborted;
      },
      left,
    );
    const generation = await writing.finally(leave);
    flush();
    generation.stats.warnings.push(...warnings);
    generation.stats.wasm_memory = memory.buffer.byteLength;
    return generation;
  },

  async embed({ texts, pooling, normalize }, { signal }) {
    return each(texts, signal, (text) => session.embed(text, pooling, normalize));
  },

  async score({ prompt, continuations }, { signal }) {
    return each(continuations, signal, (continuation) => session.score(prompt, continuation));
  },

  async encode({ prompt, options }) {
    return [...session.encode(prompt, options)];
  },

  async decode({ ids, skip_special }) {
    return session.decode(ids, skip_special);
  },

  async save({ name, messages, options }) {
    if (typeof name !== "string" || !name) throw badOption("name", name, "a text");
    return saveChat(name, { messages: [...messages], options }, async (write) => (messages.length ? [...(await session.save(messages, options, write))] : []));
  },

  async restore({ name }) {
    return restoreChat(name, ({ tokens }, read) => session.restore(new Uint32Array(tokens), read));
  },

  async counters() {
    return instances?.counters() ?? session.counters();
  },
};

/** Maps a list, one item after the other. */
async function each<T, U>(all: T[], signal: AbortSignal, compute: (one: T) => Promise<U>) {
  const done: U[] = [];
  for (const one of all) {
    done.push(await compute(one));
    if (signal.aborted) throw aborted();
  }
  return done;
}

/** Name of the lock that a shared worker holds until it ends. */
let held: Promise<string> | undefined;

const send = (message: FromWorker) => globalThis.postMessage(message);

/** A page and its unanswered calls. */
class Client {
  #calls: Map<number, AbortController> = new Map();
  /** The running call, if it is from this page. */
  #current = -1;

  declare send: (message: FromShared) => void;

  constructor(send: (message: FromShared) => void) {
    this.send = send;
  }

  receive(message: ToWorker) {
    if (message.type === "call") this.#call(message);
    if (message.type === "abort") this.#abort(message.id);
    if (message.type === "join") this.#join(message.lock);
    if (message.type === "serve") work(message.port, start);
    if (message.type === "worker_started" || message.type === "worker_failed") requested.get(message.id)?.(message);
  }

  #call({ id, method, args }: Extract<ToWorker, { type: "call" }>) {
    const control = new AbortController();
    this.#calls.set(id, control);
    const report = (event: unknown) => this.send({ type: "event", id, event });
    const isLoad = method === "load";
    if (isLoad) watching.add(report);
    const emit = isLoad ? (event: unknown) => watching.forEach((report) => report(event)) : report;
    queue = queue.then(async () => {
      // A waiting call that was aborted has its answer already.
      if (this.#calls.has(id)) await this.#answer(id, () => methods[method](args as any, { emit, signal: control.signal }));
      watching.delete(report);
    });
  }

  async #answer(id: number, work: () => Promise<any>) {
    this.#current = id;
    try {
      this.send({ type: "result", id, result: await work() });
    } catch (error) {
      // Nothing in the module may be called after a trap.
      if (error instanceof WebAssembly.RuntimeError) die(error);
      else this.send({ type: "error", id, error: explain(error) });
    }
    this.#current = -1;
    this.#calls.delete(id);
  }

  #abort(id: number) {
    this.#calls.get(id)?.abort();
    if (id === this.#current || !this.#calls.delete(id)) return;
    this.send({ type: "error", id, error: explain(aborted()) });
  }

  /** @param lock the page holds it until it ends */
  #join(lock: string) {
    navigator.locks.request(lock, () => this.#leave());
    held ??= new Promise((held) => {
      const lock = `foretoken/shared/${crypto.randomUUID()}`;
      navigator.locks.request(lock, () => new Promise(() => held(lock)));
    });
    held.then((lock) => this.send({ type: "joined", lock }));
  }

  /** Aborts the calls of a page that has ended. Frees the models after the last page. */
  #leave() {
    clients.delete(this);
    for (const id of [...this.#calls.keys()]) this.#abort(id);
    // The worker itself does not end: a page that connects just then would wait forever.
    queue = queue.then(() => {
      if (clients.size || !loaded) return;
      session.free();
      loaded = null;
    });
  }
}

const clients: Set<Client> = new Set();

function addClient(port: { postMessage: (message: FromShared) => void; onmessage: any }) {
  const client = new Client((message) => port.postMessage(message));
  clients.add(client);
  port.onmessage = ({ data }: { data: ToWorker }) => client.receive(data);
}

if ("onconnect" in globalThis) addEventListener("connect", ({ ports }: any) => addClient(ports[0]));
else addClient(globalThis as any);

// After a panic the promise of its call never settles; the error arrives here.
addEventListener("error", (event) => {
  event.preventDefault();
  die(event.message);
});
addEventListener("unhandledrejection", (event) => die(event.reason));

function die(reason: unknown) {
  const message: Extract<FromWorker, { type: "fatal" }> = { type: "fatal", error: explain(reason) };
  const port = orders();
  if (port) return port.postMessage(message);
  for (const client of clients) client.send(message);
  // Pages start the next worker under another name.
  if ("onconnect" in globalThis) close();
}
