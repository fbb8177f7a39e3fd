/**
 * Several targets: each instance of a model is in a worker of its own, and takes orders from the worker that writes the
 * text. A worker that dies is replaced while the others go on; one that dies again before it did anything is not.
 */
import { failure } from "./error.js";
import { Queue } from "./queue.js";
import type { Counters } from "./api.js";
import type { FromInstance, Loading, Source, ToInstance } from "./protocol.js";
export type InstanceLoad = Omit<Loading, "assistant" | "warnings"> & { index: number; context?: number };

/** a worker that the page started */
export type StartedWorker = {
  port: MessagePort;
  /** ends it */
  terminate: () => void;
  /** fulfils with the reason when it could not be started */
  failed: Promise<string>;
};

/** An instance, and the worker that has it. */
class Instance {
  /** It is being set up. */
  starting = false;
  /** It did something since it was set up. */
  hasReported = true;
  /** what it found when it had loaded: `{device, memory}` */
  found: any = null;
  #worker: StartedWorker | null = null;
  #counting: ((counters: Counters | null) => void)[] = [];

  declare work: InstanceLoad;
  declare requestWorker: () => Promise<StartedWorker>;
  declare callbacks: { progress: (event: any) => void; report: (report: any) => void; died: (reason: string) => void };

  /** @param work what its worker has to load; with a `context`, the draft model */
  constructor(
    work: InstanceLoad,
    requestWorker: () => Promise<StartedWorker>,
    callbacks: { progress: (event: any) => void; report: (report: any) => void; died: (reason: string) => void },
  ) {
    this.work = work;
    this.requestWorker = requestWorker;
    this.callbacks = callbacks;
  }

  get isRunning() {
    return this.#worker !== null;
  }

  /** Sets it up in a new worker; rejects with what the worker throws. */
  async start() {
    this.starting = true;
    try {
      const worker = await this.requestWorker();
      await this.#load(worker).catch((error) => {
        worker.terminate();
        throw error;
      });
    } finally {
      this.starting = false;
    }
  }

  #load(worker: StartedWorker) {
    const lock = `foretoken/worker/${crypto.randomUUID()}`;
    return new Promise((resolve, reject) => {
      const gone = (reason: string) => {
        reject(failure("internal", `a worker died: ${reason}`));
        this.#lose(worker, reason);
      };
      worker.failed.then(gone);
      worker.port.onmessage = ({ data }: { data: FromInstance }) => {
        // Whatever ends a worker frees its locks: a crash, want of memory, a page that closes it.
        if (data.type === "started") navigator.locks.request(lock, () => gone("it ended without a word"));
        if (data.type === "progress") this.callbacks.progress(data.progress);
        if (data.type === "report") this.callbacks.report({ text: data.text, report: data.report });
        if (data.type === "counters") this.#counting.shift()?.(data.counters);
        if (data.type === "fatal") gone(data.error.message);
        if (data.type === "error") reject(data.error);
        if (data.type !== "ready") return;
        this.#worker = worker;
        this.found = { device: data.device, memory: data.memory };
        resolve(undefined);
      };
      this.#send(worker, { type: "load", load: { ...this.work, lock } });
    });
  }

  #send({ port }: StartedWorker, message: ToInstance) {
    port.postMessage(message);
  }

  #lose(worker: StartedWorker, reason: string) {
    if (this.#worker !== worker) return;
    worker.terminate();
    this.#worker = null;
    for (const answer of this.#counting.splice(0)) answer(null);
    this.callbacks.died(reason);
  }

  /** @param order lost where there is no worker */
  order(order: object) {
    if (this.#worker) this.#send(this.#worker, { type: "order", order });
  }

  /** @returns what it asked of its device; null where there is no worker */
  async counters(): Promise<Counters | null> {
    if (!this.#worker) return null;
    this.#send(this.#worker, { type: "counters" });
    return new Promise((resolve) => this.#counting.push(resolve));
  }
}

/** All of them, as the engine's module wants them. */
export class InstanceWorkers {
  /** that of the draft model last */
  #instances: Instance[] = [];
  #reports: Queue<{ text: number | null; report: object }> = new Queue();
  /** the order that began the last text */
  #beginning: object | null = null;

  declare work: Omit<Loading, "model" | "assistant" | "warnings"> & { target: { model: Source }; assistant: { model?: Source } };
  declare requestWorker: () => Promise<StartedWorker>;
  declare onProgress: (event: any) => void;

  /**
   * @param work what workers have to know to load a model
   * @param requestWorker asks the page for a worker
   * @param onProgress gets the progress of the first target and of the draft model
   */
  constructor(
    work: Omit<Loading, "model" | "assistant" | "warnings"> & { target: { model: Source }; assistant: { model?: Source } },
    requestWorker: () => Promise<StartedWorker>,
    onProgress: (event: any) => void,
  ) {
    this.work = work;
    this.requestWorker = requestWorker;
    this.onProgress = onProgress;
  }

  /**
   * Loads the models; rejects with what a target's worker throws.
   * @param context positions of the target's cache
   */
  async start(withDrafter: boolean, context: number) {
    const { target, assistant, ...work } = this.work;
    const targets = Array.from({ length: Number(work.options.sp_degree ?? 1) }, (_, index) => this.#add({ ...work, ...target, index }, index === 0));
    const drafter = withDrafter ? this.#add({ ...work, ...assistant, index: targets.length, context }, true) : null;
    const assisted = drafter?.start().then(
      () => null,
      ({ message }) => {
        this.#instances.pop();
        return message;
      },
    );
    await Promise.all(targets.map((instance) => instance.start()));
    return { device: targets[0].found.device, failed: (await assisted) ?? null };
  }

  /** @param shown whether its progress is of interest */
  #add(work: any, shown: boolean) {
    const instance: Instance = new Instance(work, this.requestWorker, {
      progress: (event) => shown && this.onProgress(event),
      report: (report) => {
        instance.hasReported ||= !!report.report.verified;
        this.#reports.push(report);
      },
      died: (reason) => this.#died(instance, reason),
    });
    this.#instances.push(instance);
    return instance;
  }

  #died(instance: Instance, reason: string) {
    const { index: server, context } = instance.work;
    // Between two texts nothing waits for it.
    if (!this.#beginning) return;
    if (context !== undefined) return this.#report({ no_drafter: { error: lost(reason) } });
    if (!instance.hasReported) return this.#report({ gone: { server, error: lost(reason) } });
    this.#report({ lost: { server, reason } });
    this.#replace(instance);
  }

  async #replace(instance: Instance) {
    const { index: server, context } = instance.work;
    instance.hasReported = false;
    try {
      await instance.start();
      instance.order(this.#beginning as object);
    } catch ({ message }) {
      this.#report(context === undefined ? { gone: { server, error: lost(message) } } : { no_drafter: { error: lost(message) } });
    }
  }

  /** @param report what an instance would say, were it here */
  #report(report: object) {
    this.#reports.push({ text: null, report });
  }

  /** @param order a text begins: instances without a worker get another one */
  begin(order: object) {
    this.#beginning = order;
    // What was said of the text before is of no interest any more, and who waited for it was left.
    this.#reports = new Queue();
    for (const instance of this.#instances) {
      if (instance.isRunning) instance.order(order);
      else if (!instance.starting) this.#replace(instance);
    }
  }

  order(to: number, order: object) {
    this.#instances[to]?.order(order);
  }

  /** @param within milliseconds */
  report(within?: number) {
    return this.#reports.shift(within);
  }

  /** GPU memory of a target and of the draft model. */
  memory() {
    const drafter = this.#instances.find(({ work }) => work.context !== undefined);
    return { target: this.#instances[0].found.memory, draft: drafter?.found.memory ?? null };
  }

  /** The sums of what all of them asked of their devices. */
  async counters() {
    const all = await Promise.all(this.#instances.map((instance) => instance.counters()));
    const sums: Record<string, number> = {};
    for (const one of all) for (const [name, count] of Object.entries(one ?? {})) sums[name] = (sums[name] ?? 0) + count;
    return sums;
  }
}

/** An error as the engine's module knows it. */
const lost = (reason: string) => ({ code: "device-lost", detail: { reason } });
