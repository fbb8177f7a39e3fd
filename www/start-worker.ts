/** Starts the engine's workers: where worker.js lies or where the app says, for one page or for all pages that share a model. */
import { failure, isFailure } from "./error.js";
import type { FromShared, FromWorker, ToWorker } from "./protocol.js";

/** a worker as the engine uses it */
export type WorkerHandle = {
  postMessage: (message: ToWorker, transfer: Transferable[]) => void;
  /** of one that is shared: leaves it */
  terminate: () => void;
  onmessage: ((event: MessageEvent<FromWorker>) => any) | null;
};

/** Settings that differ outside of pages; node.ts sets them for Node. */
export const platform: { startWorker: typeof startWorker; base: () => string | undefined; path: (model: string) => string; cache: boolean } = {
  startWorker,
  base: () => globalThis.document?.baseURI ?? globalThis.location?.href,
  path: (model) => model,
  cache: true,
};

/** The address of worker.js where no bundler was: those leave another name, or that of a file on the disk of who built. */
const BESIDE = /^(?!file:).*\/(?=start-worker\.js(\?|$))/.exec(import.meta.url)?.[0].concat("worker.js");

let policy: { createScriptURL: (address: string) => any } | undefined;

/**
 * Our own addresses, for a page that enforces trusted types and has no default policy. Those that the app gives are for its
 * own policy to trust.
 */
function trusted(address: string) {
  const { trustedTypes } = globalThis as any;
  if (!trustedTypes || trustedTypes.defaultPolicy) return address;
  try {
    policy ??= trustedTypes.createPolicy("foretoken", { createScriptURL: (ours: string) => ours });
  } catch {
    // The page's policy does not name it: the browser says so, and refuses the worker.
  }
  return policy?.createScriptURL(address) ?? address;
}

/** How often a worker broke down that pages share, by its name: the next one has another, because a page may still reach the old one. */
const breakdowns: Map<string, number> = new Map();

/**
 * A worker with the engine in it. Throws where none may be started.
 * @param where the option `worker`
 * @param name pages that give the same one share the worker
 * @param failed is called if it could not be started after all
 */
export function startWorker(
  where: string | ((name?: string) => Worker | SharedWorker) | undefined,
  name: string | undefined,
  failed: (reason: string) => void,
): WorkerHandle {
  const broken = breakdowns.get(name ?? "") ?? 0;
  const called = broken ? `${name} ${broken}` : name;
  try {
    const worker = typeof where === "function" ? where(called) : construct(where, called);
    worker.onerror = async (event: any) => {
      event.preventDefault();
      const reason = event.message || import("./error-hints.js").then(({ unreachable }) => unreachable(where ?? BESIDE));
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

function construct(where: string | undefined, name?: string) {
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

/** Browsers start no worker from another origin, but one of our own may import from there. */
function bootstrap(address: string) {
  const code = `import ${JSON.stringify(address)};`;
  // In a sandboxed frame a blob may not import modules.
  if (globalThis.origin === "null") return `data:text/javascript,${encodeURIComponent(code)}`;
  // Not revoked: no event says when the worker has read it.
  return URL.createObjectURL(new Blob([code], { type: "text/javascript" }));
}

/** A worker that other pages use too. */
function join({ port }: SharedWorker, broke: () => void, failed: (reason: string) => void): WorkerHandle {
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
    set onmessage(receive: (event: MessageEvent<FromWorker>) => void) {
      const died = () => {
        broke();
        failed("the worker that pages share ended without a word");
      };
      port.onmessage = (event: MessageEvent<FromShared>) => {
        const { data } = event;
        if (data.type === "fatal") broke();
        if (data.type === "joined") navigator.locks.request(data.lock, { signal: leaving.signal }, died).catch(() => {});
        else receive(event as MessageEvent<FromWorker>);
      };
    },
  };
}
