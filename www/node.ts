/** foretoken in Node and Deno: the engine's worker is a thread, and a model can be a folder on the disk. */
import { pathToFileURL } from "node:url";
import { Worker } from "node:worker_threads";
import { badOption } from "./error.js";
import { platform } from "./start-worker.js";

export * from "./engine.js";

// By another name, because webpack would build the worker into a server's bundle.
const here = import.meta.url;

import type { WorkerHandle } from "./start-worker.js";

class Thread implements WorkerHandle {
  onmessage: any = null;
  onerror: any = null;
  // Not what this process was started with: `--input-type` is an error there.
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
  // The characters of a path mean themselves: # and ? begin no other part of a URL.
  path: (model) => (/^\.{0,2}\//.test(model) ? pathToFileURL(model).href : model),
  cache: false,
};
Object.assign(platform, inNode);
