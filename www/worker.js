/**
 * The engine's own thread: one model pair, one request after the other. Messages in: {id, method, args}; out: {id, result},
 * {id, error: {code, message, detail}}, and {id, event} while a request runs.
 */
import { Cache } from "./cache.js";
import init, { load } from "./foretoken.js";
import { failure, openFiles } from "./hub.js";

/** @type {import("./foretoken.js").Session} */
let session;
/** @type {WebAssembly.Memory} */
let memory;
/** @type {Map<number, AbortController>} */
const running = new Map();
/** What a person should know of the loading. @type {string[]} */
let warnings = [];
/** What the browser tells of the GPU; the engine inside sees no name. */
async function adapterName() {
  const adapter = await navigator.gpu.requestAdapter({ powerPreference: "high-performance" });
  const { description = "", vendor = "", architecture = "" } = adapter?.info ?? {};
  return description || `${vendor} ${architecture}`.trim();
}

/** The session answers one call at a time. */
let queue = Promise.resolve();

/** @type {Record<string, (args: any, context: { emit: (event: unknown) => void, signal: AbortSignal }) => Promise<unknown>>} */
const methods = {
  async load({ model, assistant, hub, base, options }, { emit, signal }) {
    ({ memory } = await init());
    warnings = [];
    const cache = hub.cache ? new Cache((text) => warnings.push(text)) : undefined;
    const open = (/** @type {any} */ model, /** @type {"target" | "assistant"} */ role) =>
      openFiles(model, { ...hub, cache, base, signal, role, onProgress: emit });
    /** @type {(phase: string, loaded: number, total: number) => void} */
    const tell = (phase, loaded, total) => emit({ phase, model: "", file: "", loaded, total });
    let uploaded = false;
    const upload = (/** @type {number} */ loaded, /** @type {number} */ total) => {
      tell("upload", loaded, total);
      // The kernels are compiled and checked on this device between the last byte and the end of loading.
      if (loaded === total && !uploaded) tell("compile", 0, 1);
      uploaded = loaded === total;
    };
    const assisting = assistant ? open(assistant, "assistant") : undefined;
    const files = open(model, "target");
    try {
      session = await load(files, assisting, options, upload);
    } finally {
      files.close?.();
      assisting?.close?.();
    }
    tell("compile", 1, 1);
    const device = session.device();
    device.name ||= await adapterName();
    return { device, memory: session.memory(), warnings: [...warnings, ...session.warnings()] };
  },

  async generate({ prompt, options }, { emit, signal }) {
    /** @type {unknown[]} */
    let tokens = [];
    const flush = () => {
      if (tokens.length) emit(tokens);
      tokens = [];
    };
    const generation = await session.generate(prompt, options, (/** @type {unknown} */ token) => {
      // A round's tokens come one after the other before the engine waits for the GPU again: they travel together.
      if (tokens.push(token) === 1) queueMicrotask(flush);
      return !signal.aborted;
    });
    flush();
    generation.stats.warnings.push(...warnings);
    generation.stats.wasm_memory = memory.buffer.byteLength;
    return generation;
  },

  async encode({ prompt }) {
    return [...session.encode(prompt)];
  },

  async decode({ ids, skip_special }) {
    return session.decode(ids, skip_special);
  },

  async counters() {
    return session.counters();
  },
};

onmessage = ({ data: { id, method, args } }) => {
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
  postMessage({ fatal: failure("internal", String(panicked() ?? reason)) });
}

/** @param {any} error */
function explain(error) {
  if (typeof error?.code === "string") return { code: error.code, message: error.message, detail: error.detail ?? null };
  return failure("internal", String(panicked() ?? error?.stack ?? error));
}
