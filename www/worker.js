/**
 * The engine's own thread: one model pair, one request after the other. Messages in: {id, method, args}; out: {id, result},
 * {id, error: {code, message, detail}}, and {id, event} while a request runs.
 *
 * Where there are several targets, it asks the page for more workers of this kind: {hire}, answered by {hired, port}. What
 * such a worker does it hears through its port ({serve}), from crew.js.
 */
import { Cache } from "./cache.js";
import { Crew } from "./crew.js";
import init, { inspect, load, loadParallel, serve } from "./foretoken.js";
import initGrammars, { Grammars } from "./grammar.js";
import { failure, openFiles } from "./hub.js";

/** @type {import("./foretoken.js").Session} */
let session;
/** The workers that have the targets, where there are several. @type {Crew | null} */
let crew = null;
/** @type {WebAssembly.Memory} */
let memory;
/** @type {Map<number, AbortController>} */
const running = new Map();
/** Where orders come from, in a worker of a crew. @type {MessagePort | undefined} */
let crewed;
/** What a person should know of the loading. @type {string[]} */
let warnings = [];
/** What the browser tells of the GPU; the engine inside sees no name. */
async function adapterName() {
  const adapter = await navigator.gpu.requestAdapter({ powerPreference: "high-performance" });
  const { description = "", vendor = "", architecture = "" } = adapter?.info ?? {};
  return description || `${vendor} ${architecture}`.trim();
}

/**
 * Whether there are two adapters of one kind. Another kind rounds differently: a text that two kinds write together would be
 * neither's.
 */
async function hasTwins() {
  const preferences = /** @type {const} */ (["high-performance", "low-power"]);
  const adapters = await Promise.all(preferences.map((powerPreference) => navigator.gpu.requestAdapter({ powerPreference })));
  const [a, b] = adapters.map((adapter) => [adapter?.info?.vendor, adapter?.info?.architecture, adapter?.info?.description].join());
  // Where a browser hides what it has, nothing is known.
  return a === b && a.length > 3;
}

/**
 * How models are opened, and who hears of it.
 * @param {any} work `hub`, `base`
 * @param {{ emit: (event: unknown) => void, signal: AbortSignal }} context
 */
function opening({ hub, base }, { emit, signal }) {
  const cache = hub.cache ? new Cache((text) => warnings.push(text)) : undefined;
  /** @type {(phase: string, loaded: number, total: number) => void} */
  const tell = (phase, loaded, total) => emit({ phase, model: "", file: "", loaded, total });
  let uploaded = false;
  return {
    open: (/** @type {any} */ model, /** @type {"target" | "assistant"} */ role) =>
      openFiles(model, { ...hub, cache, base, signal, role, onProgress: emit }),
    upload(/** @type {number} */ loaded, /** @type {number} */ total) {
      tell("upload", loaded, total);
      // The kernels are compiled and checked on this device between the last byte and the end of loading.
      if (loaded === total && !uploaded) tell("compile", 0, 1);
      uploaded = loaded === total;
    },
    done: () => tell("compile", 1, 1),
  };
}

/** Lets only that progress through which is one. @param {(event: any) => void} emit @returns {(event: any) => void} */
function rising(emit) {
  const most = new Map();
  return (event) => {
    const { phase, model, file, loaded } = event;
    const what = [phase, model, file].join();
    if (loaded < (most.get(what) ?? 0)) return;
    most.set(what, loaded);
    emit(event);
  };
}

/** Workers that the page was asked for. @type {Map<number, (answer: any) => void>} */
const hiring = new Map();
let hires = 0;

/** @returns {Promise<import("./crew.js").Hired>} */
function hire() {
  const id = hires++;
  postMessage({ hire: id });
  return new Promise((resolve) => {
    /** @type {(reason: string) => void} */
    let fail;
    const failed = new Promise((resolve) => (fail = resolve));
    const dismiss = () => {
      postMessage({ dismiss: id });
      hiring.delete(id);
    };
    hiring.set(id, ({ port, failed: reason }) => (port ? resolve({ port, dismiss, failed }) : fail(reason)));
  });
}

/** Whether the session knows grammars. */
let hasGrammars = false;

/** Loads the module of grammars, and tells it what tokens there are. */
async function loadGrammars() {
  try {
    await initGrammars();
  } catch (error) {
    throw failure("network", `grammar_bg.wasm, which response_format needs, cannot be loaded: ${error.message}`);
  }
  const vocabulary = session.vocabulary();
  if (vocabulary) session.constrainBy(new Grammars(.../** @type {[Uint8Array, Uint32Array, Uint32Array]} */ (vocabulary)));
  hasGrammars = true;
}

/** The session answers one call at a time. */
let queue = Promise.resolve();

/** @type {Record<string, (args: any, context: { emit: (event: unknown) => void, signal: AbortSignal }) => Promise<unknown>>} */
const methods = {
  async load({ model, assistant, wasm, hub, base, options }, { emit, signal }) {
    ({ memory } = await init({ module_or_path: wasm }));
    warnings = [];
    hasGrammars = false;
    crew = null;
    const isParallel = options.sp_degree > 1 || (assistant && options.draft_device === "cpu");
    // Several workers read the same file, each from its beginning.
    if (isParallel) emit = rising(emit);
    const { open, upload, done } = opening({ hub, base }, { emit, signal });
    const assisting = assistant ? open(assistant, "assistant") : undefined;
    const files = open(model, "target");
    if (isParallel) crew = new Crew({ target: { model }, assistant: { model: assistant }, wasm, hub, base, options }, hire, emit);
    try {
      session = await (crew ? loadParallel(files, assisting, crew, options) : load(files, assisting, options, upload));
    } finally {
      files.close?.();
      assisting?.close?.();
    }
    done();
    const device = session.device();
    device.name ||= await adapterName();
    return { device, memory: crew?.memory() ?? session.memory(), warnings: [...warnings, ...session.warnings()] };
  },

  async inspect({ model, wasm, hub, base, options }, context) {
    await init({ module_or_path: wasm });
    const files = opening({ hub, base }, context).open(model, "target");
    try {
      return await inspect(files, options);
    } finally {
      files.close?.();
    }
  },

  async generate({ prompt, options }, { emit, signal }) {
    if (options.response_format && options.response_format.type !== "text" && !hasGrammars) await loadGrammars();
    /** @type {unknown[]} */
    let tokens = [];
    const flush = () => {
      if (tokens.length) emit({ tokens });
      tokens = [];
    };
    const generation = await session.generate(prompt, options, (/** @type {unknown} */ token) => {
      // A round's tokens come one after the other before the engine waits for the GPU again: they travel together.
      if (tokens.push(token) === 1) queueMicrotask(flush);
      return !signal.aborted;
    }, (/** @type {number} */ loaded, /** @type {number} */ total) => {
      emit({ phase: "prefill", loaded, total });
      return !signal.aborted;
    });
    flush();
    generation.stats.warnings.push(...warnings);
    generation.stats.wasm_memory = memory.buffer.byteLength;
    return generation;
  },

  async encode({ prompt, options }) {
    return [...session.encode(prompt, options)];
  },

  async decode({ ids, skip_special }) {
    return session.decode(ids, skip_special);
  },

  async counters() {
    return crew?.counters() ?? session.counters();
  },
};

/** Works on one instance of a model from now on. @param {MessagePort} port */
function work(port) {
  crewed = port;
  /** @type {import("./foretoken.js").Server} */
  let server;
  port.onmessage = async ({ data: { load, order, counters } }) => {
    if (order) server.order(order);
    if (counters) port.postMessage({ counters: server.counters() });
    if (!load) return;
    const { model, wasm, index, context, lock, options } = load;
    // Held for as long as this worker lives.
    await new Promise((held) => navigator.locks.request(lock, () => new Promise(() => held(undefined))));
    port.postMessage({ here: true });
    try {
      await init({ module_or_path: wasm });
      // Whoever gives up loading ends this worker.
      const { signal } = new AbortController();
      const { open, upload } = opening(load, { emit: (progress) => port.postMessage({ progress }), signal });
      const files = open(model, context === undefined ? "target" : "assistant");
      try {
        // Where two adapters are one, asking for the other changes nothing.
        const lowPower = index % 2 === 1 && (await hasTwins());
        const tell = (/** @type {any} */ told) => port.postMessage({ told });
        server = await serve(files, index, context, lowPower, options, upload, tell);
      } finally {
        files.close?.();
      }
      port.postMessage({ ready: { device: server.device(), memory: server.memory() } });
    } catch (error) {
      port.postMessage({ error: explain(error) });
    }
  };
}

onmessage = ({ data: { id, method, args, serve, hired, ...answer } }) => {
  if (serve) return work(serve);
  if (hired !== undefined) return hiring.get(hired)?.(answer);
  if (method === "abort") {
    running.get(id)?.abort();
    return;
  }
  const control = new AbortController();
  running.set(id, control);
  const context = { signal: control.signal, emit: (/** @type {unknown} */ event) => postMessage({ id, event }) };
  queue = queue.then(async () => {
    try {
      if (control.signal.aborted) throw failure("aborted", "aborted");
      postMessage({ id, result: await methods[method](args, context) });
    } catch (error) {
      // Nothing in the module may be called after a trap.
      if (error instanceof WebAssembly.RuntimeError) die(error);
      else postMessage({ id, error: explain(error) });
    }
    running.delete(id);
  });
};

// After a panic the promise of the call that caused it never settles; what is thrown arrives here.
addEventListener("error", (event) => {
  event.preventDefault();
  die(event.message);
});
addEventListener("unhandledrejection", (event) => die(event.reason));

/** The words of a panic, which the engine leaves behind. */
const panicked = () => /** @type {any} */ (globalThis).foretoken_panic;

/** @param {unknown} reason */
function die(reason) {
  (crewed ?? globalThis).postMessage({ fatal: failure("internal", String(panicked() ?? reason)) });
}

/** @param {any} error */
function explain(error) {
  if (typeof error?.code === "string") return { code: error.code, message: error.message, detail: error.detail ?? null };
  return failure("internal", String(panicked() ?? error?.stack ?? error));
}
