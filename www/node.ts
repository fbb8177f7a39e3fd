/** The engine in Node and Deno: its worker is a thread, and models can be folders on disk. */
import { pathToFileURL } from "node:url";
import { Worker } from "node:worker_threads";
import { badOption } from "./error.js";
import { platform } from "./start-worker.js";

export * from "./engine.js";

// Otherwise webpack would bundle the worker for servers.
const here = import.meta.url;

import type { WorkerHandle } from "./start-worker.js";

class Thread implements WorkerHandle {
  onmessage: any = null;
  onerror: any = null;
  // Without the flags of this process: threads refuse `--input-type`.
  #worker = new Worker(new URL("node-worker.js", here), { execArgv: [] });

  constructor() {
    this.#worker.on("message", (data) => this.onmessage?.({ data }));
    this.#worker.on("error", ({ message }) => this.onerror?.({ message, preventDefault() {} }));
  }

  postMessage(message: unknown, transfer: Transferable[]) {
    this.#worker.postMessage(message, transfer as any);
  }

  terminate() {
    this.#worker.terminate();
  }
}

const { startWorker } = platform;
const inNode: typeof platform = {
  startWorker(where, name, failed) {
    if (typeof where === "string") throw badOption("worker", where, "a function that starts a worker");
    if (name !== undefined) throw badOption("shared", true, "in a browser");
    return startWorker(where ?? (() => new Thread() as any), name, failed);
  },
  base: () => pathToFileURL("./").href,
  // Escapes # and ?.
  path: (model) => (/^\.{0,2}\//.test(model) ? pathToFileURL(model).href : model),
  cache: false,
};
Object.assign(platform, inNode);
