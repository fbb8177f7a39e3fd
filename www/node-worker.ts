/** The engine's worker as a thread of Node: defines the globals of a worker, and `file:` addresses for fetch. */
import { setMaxListeners } from "node:events";
import { open } from "node:fs/promises";
import { availableParallelism } from "node:os";
import { parentPort } from "node:worker_threads";
import type { MessagePort } from "node:worker_threads";

// A signal has a listener per request.
setMaxListeners(0);
const events = new EventTarget();
const { fetch } = globalThis;
const navigator: { gpu?: unknown; locks?: LockManager } = globalThis.navigator ?? {};
const port = parentPort as MessagePort;

/** Returns Deno's GPU, or that of the package `webgpu` in Node. */
async function findGpu() {
  if (navigator.gpu) return navigator.gpu;
  try {
    // Bundlers cannot bundle its driver.
    // @ts-expect-error: it is an optional peer.
    const { create, globals } = await import(/* webpackIgnore: true */ /* turbopackIgnore: true */ "webgpu");
    Object.assign(globalThis, globals);
    const gpu = create([]);
    // `keys()` of this set returns no iterator.
    return Object.defineProperty(gpu, "wgslLanguageFeatures", { value: new Set(gpu.wgslLanguageFeatures) });
  } catch {
    return undefined;
  }
}

/** Answers a request for a file, or a part of it, like a server. */
async function answer(url: URL, { headers }: RequestInit = {}) {
  let file: import("node:fs/promises").FileHandle | undefined;
  try {
    file = await open(url);
    const { size } = await file.stat();
    const [, first = 0, last = size - 1] = /^bytes=(\d+)-(\d+)$/.exec(new Headers(headers).get("range") ?? "") ?? [];
    const bytes = new Uint8Array(Math.max(0, Math.min(Number(last) + 1, size) - Number(first)));
    await file.read(bytes, 0, bytes.length, Number(first));
    const type = url.pathname.endsWith(".wasm") ? "application/wasm" : "application/octet-stream";
    const range = `bytes ${first}-${Number(first) + bytes.length - 1}/${size}`;
    return new Response(bytes, { status: 206, headers: { "content-type": type, "content-range": range } });
  } catch {
    // The file is missing or a folder.
    return new Response(null, { status: 404 });
  } finally {
    await file?.close();
  }
}

const ours = { gpu: await findGpu(), locks: navigator.locks, hardwareConcurrency: availableParallelism() };
Object.defineProperty(globalThis, "navigator", { value: ours, configurable: true });
Object.assign(globalThis, {
  addEventListener: events.addEventListener.bind(events),
  removeEventListener: events.removeEventListener.bind(events),
  postMessage: port.postMessage.bind(port),
  // By this global the engine's module recognises a worker.
  WorkerGlobalScope: EventTarget,
  fetch(address: RequestInfo | URL, options: RequestInit | undefined) {
    const url = new URL(address instanceof Request ? address.url : address);
    return url.protocol === "file:" ? answer(url, options) : fetch(address, options);
  },
});

await import("./worker.js");
const fail = ({ message }: Error) => events.dispatchEvent(Object.assign(new Event("error"), { message }));
process.on("uncaughtException", fail).on("unhandledRejection", fail);
port.on("message", (data) => (globalThis as any).onmessage({ data }));
