/** Starts the engine's workers: from worker.js or the app's address, for one page or several. */
import { failure, isFailure } from "./error.js";
import type { FromShared, FromWorker, ToWorker } from "./protocol.js";

export type WorkerHandle = {
  postMessage: (message: ToWorker, transfer: Transferable[]) => void;
  /** Ends the worker, or leaves a shared worker. */
  terminate: () => void;
  onmessage: ((event: MessageEvent<FromWorker>) => any) | null;
};

/** Settings that node.ts changes for Node. */
export const platform: { startWorker: typeof startWorker; base: () => string | undefined; path: (model: string) => string; cache: boolean } = {
  startWorker,
  base: () => globalThis.document?.baseURI ?? globalThis.location?.href,
  path: (model) => model,
  cache: true,
};

/** Address of worker.js without a bundler. Bundlers rename this file, or leave an address on the developer's disk. */
const BESIDE = /^(?!file:).*\/(?=start-worker\.js(\?|$))/.exec(import.meta.url)?.[0].concat("worker.js");

let policy: { createScriptURL: (address: string) => any } | undefined;

/** Makes our own addresses trusted, for pages that enforce trusted types without a default policy. */
function trusted(address: string) {
  const { trustedTypes } = globalThis as any;
  if (!trustedTypes || trustedTypes.defaultPolicy) return address;
  try {
    policy ??= trustedTypes.createPolicy("foretoken", { createScriptURL: (ours: string) => ours });
  } catch {
    // The page does not allow this policy: the browser reports it and refuses the worker.
  }
  return policy?.createScriptURL(address) ?? address;
}

/** Numbers of breakdowns of shared workers, by name. The next worker gets another name, because pages may still reach the old one. */
const breakdowns: Map<string, number> = new Map();

/**
 * Starts a worker. Throws if the page may not start workers.
 * @param where the option `worker`
 * @param name of a shared worker
 * @param failed is called if the worker cannot be started, or ends by itself
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

/** Returns a script that imports a worker from another origin, from which browsers start no workers. */
function bootstrap(address: string) {
  const code = `import ${JSON.stringify(address)};`;
  // In a sandboxed frame a blob may not import modules.
  if (globalThis.origin === "null") return `data:text/javascript,${encodeURIComponent(code)}`;
  // Not revoked: no event says when the worker has read it.
  return URL.createObjectURL(new Blob([code], { type: "text/javascript" }));
}

/** Joins a shared worker. */
function join({ port }: SharedWorker, broke: () => void, failed: (reason: string) => void): WorkerHandle {
  const lock = `foretoken/page/${crypto.randomUUID()}`;
  const leaving = new AbortController();
  const gone = new Promise((resolve) => leaving.signal.addEventListener("abort", resolve));
  // Freed when the page leaves, closes or crashes.
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
