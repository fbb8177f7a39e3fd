/** The engine's worker as a thread of Node: what worker.js expects around it, and `file:` addresses for fetch. */
import { openAsBlob } from "node:fs";
import { fileURLToPath } from "node:url";
import { parentPort } from "node:worker_threads";

const events = new EventTarget();
const { fetch, navigator = {} } = globalThis;

/** The GPU: Deno has one, Node where the package `webgpu` is installed. */
async function findGpu() {
  if (navigator.gpu) return navigator.gpu;
  try {
    const { create, globals } = await import("webgpu");
    Object.assign(globalThis, globals);
    return create([]);
  } catch {
    return undefined;
  }
}

/** A file, or the part of it that is asked for, as a server would answer. */
async function answer(url, { headers } = {}) {
  const file = await openAsBlob(fileURLToPath(url)).catch(() => null);
  if (!file) return new Response(null, { status: 404 });
  const type = url.pathname.endsWith(".wasm") ? "application/wasm" : "application/octet-stream";
  const [, first, last] = /^bytes=(\d+)-(\d+)$/.exec(new Headers(headers).get("range") ?? "") ?? [];
  if (first === undefined) return new Response(file, { headers: { "content-type": type, "content-length": String(file.size) } });
  const [start, end] = [Number(first), Math.min(Number(last) + 1, file.size)];
  if (start >= end) return new Response(null, { status: 416 });
  return new Response(file.slice(start, end), { status: 206, headers: { "content-type": type, "content-range": `bytes ${start}-${end - 1}/${file.size}` } });
}

Object.defineProperty(globalThis, "navigator", { value: { gpu: await findGpu(), locks: navigator.locks }, configurable: true });
Object.assign(globalThis, {
  addEventListener: events.addEventListener.bind(events),
  removeEventListener: events.removeEventListener.bind(events),
  postMessage: parentPort.postMessage.bind(parentPort),
  // By this the module knows a worker, and asks its navigator for the GPU.
  WorkerGlobalScope: EventTarget,
  fetch(address, options) {
    const url = new URL(address instanceof Request ? address.url : address);
    return url.protocol === "file:" ? answer(url, options) : fetch(address, options);
  },
});
const fail = ({ message }) => events.dispatchEvent(Object.assign(new Event("error"), { message }));
process.on("uncaughtException", fail).on("unhandledRejection", fail);

await import("./worker.js");
parentPort.on("message", (data) => globalThis.onmessage({ data }));
