/** Starts the engine's workers: where worker.js lies or where the app says, for one page or for all pages that share a model. */
import { failure, isFailure } from "./error.js";

/** @import { FromShared, FromWorker, ToWorker } from "./protocol.js" */

/**
 * @typedef {object} Spawned a worker as the engine uses it
 * @property {(message: ToWorker, transfer: Transferable[]) => void} postMessage
 * @property {() => void} terminate of one that is shared: leaves it
 * @property {((event: MessageEvent<FromWorker>) => any) | null} onmessage
 */

/**
 * What differs outside of pages; node.js says what it is there.
 * @type {{ spawn: typeof spawn, base: () => string | undefined, path: (model: string) => string, cache: boolean }}
 */
export const place = { spawn, base: () => globalThis.document?.baseURI ?? globalThis.location?.href, path: (model) => model, cache: true };

/** The address of worker.js where no bundler was: those leave another name, or that of a file on the disk of who built. */
const BESIDE = /^(?!file:).*\/(?=spawn\.js(\?|$))/.exec(import.meta.url)?.[0].concat("worker.js");

/** @type {{ createScriptURL: (address: string) => any } | undefined} */
let policy;

/**
 * Our own addresses, for a page that enforces trusted types and has no default policy. Those that the app gives are for its
 * own policy to trust.
 * @param {string} address
 */
function trusted(address) {
  const { trustedTypes } = /** @type {any} */ (globalThis);
  if (!trustedTypes || trustedTypes.defaultPolicy) return address;
  try {
    policy ??= trustedTypes.createPolicy("foretoken", { createScriptURL: (/** @type {string} */ ours) => ours });
  } catch {
    // The page's policy does not name it: the browser says so, and refuses the worker.
  }
  return policy?.createScriptURL(address) ?? address;
}

/** How often a worker broke down that pages share, by its name: the next one has another, because a page may still reach the old one. @type {Map<string, number>} */
const breakdowns = new Map();

/**
 * A worker with the engine in it. Throws where none may be started.
 * @param {string | ((name?: string) => Worker | SharedWorker) | undefined} where the option `worker`
 * @param {string | undefined} name pages that give the same one share the worker
 * @param {(reason: string) => void} failed hears that it could not be started after all
 * @returns {Spawned}
 */
export function spawn(where, name, failed) {
  const broken = breakdowns.get(name ?? "") ?? 0;
  const called = broken ? `${name} ${broken}` : name;
  try {
    const worker = typeof where === "function" ? where(called) : start(where, called);
    worker.onerror = async (/** @type {any} */ event) => {
      event.preventDefault();
      const reason = event.message || import("./trouble.js").then(({ unreachable }) => unreachable(where ?? BESIDE));
      failed(await Promise.resolve(reason).catch(() => "the worker could not be started"));
    };
    if (!("port" in worker)) return worker;
    return join(worker, () => breakdowns.set(name ?? "", broken + 1), failed);
  } catch (error) {
    if (isFailure(error)) throw error;
    // Against a policy of the page, for example.
    const reason = globalThis.Worker ? error.message : "there are none here, as in a service worker. Load the engine in a page, or an offscreen document";
    throw failure("internal", `the worker could not be started: ${reason}`);
  }
}

/** @param {string | undefined} where @param {string} [name] */
function start(where, name) {
  const address = where ?? BESIDE;
  if (!address) {
    // Bundlers look for these words.
    return name === undefined
      ? new Worker(new URL("./worker.js", import.meta.url), { type: "module" })
      : new SharedWorker(new URL("./worker.js", import.meta.url), { type: "module", name });
  }
  const { origin } = new URL(address);
  const isOurs = origin === globalThis.origin;
  if (!isOurs && name !== undefined)
    throw failure(
      "internal",
      `pages can share a worker of their own origin only: give the address of a copy of worker.js as the option \`worker\`, instead of ${address}`,
    );
  const script = isOurs ? address : bootstrap(address);
  const passed = where === undefined ? trusted(script) : script;
  return name === undefined ? new Worker(passed, { type: "module" }) : new SharedWorker(passed, { type: "module", name });
}

/** Browsers start no worker from another origin, but one of our own may import from there. @param {string} address */
function bootstrap(address) {
  const code = `import ${JSON.stringify(address)};`;
  // In a sandboxed frame a blob may not import modules.
  if (globalThis.origin === "null") return `data:text/javascript,${encodeURIComponent(code)}`;
  // Not revoked: nobody says when the worker has read it.
  return URL.createObjectURL(new Blob([code], { type: "text/javascript" }));
}

/**
 * A worker that other pages use too.
 * @param {SharedWorker} worker @param {() => void} broke @param {(reason: string) => void} failed
 * @returns {Spawned}
 */
function join({ port }, broke, failed) {
  const lock = `foretoken/page/${crypto.randomUUID()}`;
  const leaving = new AbortController();
  const gone = new Promise((resolve) => leaving.signal.addEventListener("abort", resolve));
  // A page that closes, or crashes, gives it up as well.
  navigator.locks.request(lock, () => {
    port.postMessage({ type: "join", lock });
    return gone;
  });
  return {
    postMessage: (message, transfer) => port.postMessage(message, transfer),
    terminate() {
      leaving.abort();
      port.onmessage = null;
    },
    set onmessage(/** @type {(event: MessageEvent<FromWorker>) => void} */ hear) {
      const died = () => {
        broke();
        failed("the worker that pages share ended without a word");
      };
      port.onmessage = (/** @type {MessageEvent<FromShared>} */ event) => {
        const { data } = event;
        if (data.type === "fatal") broke();
        if (data.type === "joined") navigator.locks.request(data.lock, { signal: leaving.signal }, died).catch(() => {});
        else hear(/** @type {MessageEvent<FromWorker>} */ (event));
      };
    },
  };
}
