/** Several targets: workers with one instance of a model each, under the orders of the engine's worker. */
import { failure } from "./error.js";
import { Queue } from "./queue.js";
import type { Counters, DeviceInfo } from "./api.js";
import type { FromInstance, Loading, Source, ToInstance } from "./protocol.js";

type Shared = Omit<Loading, "model" | "assistant" | "warnings">;
/** The model of an instance; with a `context`, the draft model. */
export type InstanceLoad = Shared & { model: Source; index: number; context?: number };
type Report = { text: number | null; report: any };

/** A worker that the page has started. */
export type StartedWorker = {
  port: MessagePort;
  terminate: () => void;
  /** Fulfils with the reason if the worker cannot be started. */
  failed: Promise<string>;
};

/** An instance and its worker. */
class Instance {
  isStarting = false;
  /** False until a replaced instance has verified a draft. */
  hasReported = true;
  /** Device and memory after loading. */
  loaded: { device: DeviceInfo; memory: any } = {} as any;
  #worker: StartedWorker | null = null;
  #counting: ((counters: Counters | null) => void)[] = [];
  declare load;
  #requestWorker;
  #on;

  constructor(
    load: InstanceLoad,
    requestWorker: () => Promise<StartedWorker>,
    on: { progress: (event: any) => void; report: (report: Report) => void; lost: (reason: string) => void },
  ) {
    this.load = load;
    this.#requestWorker = requestWorker;
    this.#on = on;
  }

  get isRunning() {
    return this.#worker !== null;
  }

  /** Loads the model in a new worker. Rejects with the worker's error. */
  async start() {
    this.isStarting = true;
    try {
      const worker = await this.#requestWorker();
      await this.#load(worker).catch((error) => {
        worker.terminate();
        throw error;
      });
    } finally {
      this.isStarting = false;
    }
  }

  #load(worker: StartedWorker) {
    const lock = `foretoken/worker/${crypto.randomUUID()}`;
    return new Promise<void>((resolve, reject) => {
      const gone = (reason: string) => {
        reject(failure("internal", `a worker died: ${reason}`));
        this.#lose(worker, reason);
      };
      worker.failed.then(gone);
      worker.port.onmessage = ({ data }: { data: FromInstance }) => {
        // Any end of a worker frees its locks.
        if (data.type === "started") navigator.locks.request(lock, () => gone("it ended without a word"));
        if (data.type === "progress") this.#on.progress(data.progress);
        if (data.type === "report") this.#on.report(data);
        if (data.type === "counters") this.#counting.shift()?.(data.counters);
        if (data.type === "fatal") gone(data.error.message);
        if (data.type === "error") reject(data.error);
        if (data.type !== "ready") return;
        this.#worker = worker;
        this.loaded = data;
        resolve();
      };
      worker.port.postMessage({ type: "load", load: { ...this.load, lock } } satisfies ToInstance);
    });
  }

  #lose(worker: StartedWorker, reason: string) {
    if (this.#worker !== worker) return;
    worker.terminate();
    this.#worker = null;
    for (const answer of this.#counting.splice(0)) answer(null);
    this.#on.lost(reason);
  }

  /** Sends an order, if there is a worker. */
  order(order: object) {
    this.#worker?.port.postMessage({ type: "order", order } satisfies ToInstance);
  }

  /** Returns the counters of the device; null without a worker. */
  async counters(): Promise<Counters | null> {
    if (!this.#worker) return null;
    this.#worker.port.postMessage({ type: "counters" } satisfies ToInstance);
    return new Promise((resolve) => this.#counting.push(resolve));
  }
}

/** All instances, as the engine's module calls them: the type `Workers` in Rust. */
export class InstanceWorkers {
  /** The draft model is the last one. */
  #instances: Instance[] = [];
  #reports: Queue<Report> = new Queue();
  /** The order that began the latest text. */
  #beginning: object | null = null;
  #models;
  #requestWorker;
  #onProgress;

  /** @param onProgress gets the progress of the first target and of the draft model */
  constructor(
    models: Shared & { target: { model: Source }; assistant: { model?: Source } },
    requestWorker: () => Promise<StartedWorker>,
    onProgress: (event: any) => void,
  ) {
    this.#models = models;
    this.#requestWorker = requestWorker;
    this.#onProgress = onProgress;
  }

  /**
   * Loads the models. Rejects with the error of a target's worker; returns that of the draft model.
   * @param context positions of the target's cache
   */
  async start(withDrafter: boolean, context: number) {
    const { target, assistant, ...shared } = this.#models;
    const targets = Array.from({ length: Number(shared.options.sp_degree ?? 1) }, (_, index) => this.#add({ ...shared, ...target, index }, index === 0));
    const drafter = withDrafter ? this.#add({ ...shared, ...(assistant as { model: Source }), index: targets.length, context }, true) : null;
    const failed = drafter?.start().then(
      () => null,
      ({ message }) => {
        this.#instances.pop();
        return message;
      },
    );
    await Promise.all(targets.map((instance) => instance.start()));
    return { device: targets[0].loaded.device, failed: (await failed) ?? null };
  }

  #add(load: InstanceLoad, showsProgress: boolean) {
    const instance: Instance = new Instance(load, this.#requestWorker, {
      progress: (event) => showsProgress && this.#onProgress(event),
      report: (report) => {
        instance.hasReported ||= !!report.report.verified;
        this.#reports.push(report);
      },
      lost: (reason) => this.#lost(instance, reason),
    });
    this.#instances.push(instance);
    return instance;
  }

  #lost(instance: Instance, reason: string) {
    // Between two texts nothing waits for the instance.
    if (!this.#beginning) return;
    const { index: server, context } = instance.load;
    if (context !== undefined || !instance.hasReported) return this.#giveUp(instance, reason);
    this.#report({ lost: { server, reason } });
    this.#replace(instance);
  }

  /** Loads an instance in a new worker while the others continue. An instance that fails again before it has reported is given up. */
  async #replace(instance: Instance) {
    instance.hasReported = false;
    try {
      await instance.start();
      instance.order(this.#beginning as object);
    } catch ({ message }) {
      this.#giveUp(instance, message);
    }
  }

  #giveUp({ load: { index: server, context } }: Instance, reason: string) {
    const error = { code: "device-lost", detail: { reason } };
    this.#report(context === undefined ? { gone: { server, error } } : { no_drafter: { error } });
  }

  /** Reports in place of an instance. */
  #report(report: object) {
    this.#reports.push({ text: null, report });
  }

  /** Begins a text. Instances without a worker get a new one. */
  begin(order: object) {
    this.#beginning = order;
    // Reports about the text before are dropped, and so are their readers.
    this.#reports = new Queue();
    for (const instance of this.#instances) {
      if (instance.isRunning) instance.order(order);
      else if (!instance.isStarting) this.#replace(instance);
    }
  }

  order(to: number, order: object) {
    this.#instances[to]?.order(order);
  }

  /** @param within milliseconds */
  report(within?: number) {
    return this.#reports.shift(within);
  }

  /** Returns the memory of a target and of the draft model. */
  memory() {
    const drafter = this.#instances.find(({ load }) => load.context !== undefined);
    return { target: this.#instances[0].loaded.memory, draft: drafter?.loaded.memory ?? null };
  }

  /** Returns the sums of the instances' counters. */
  async counters() {
    const all = await Promise.all(this.#instances.map((instance) => instance.counters()));
    const sums: Record<string, number> = {};
    for (const one of all) for (const [name, count] of Object.entries(one ?? {})) sums[name] = (sums[name] ?? 0) + count;
    return sums;
  }
}
