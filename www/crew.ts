/**
 * Several targets: each instance of a model is in a worker of its own, and takes orders from the worker that writes the
 * text. A worker that dies is replaced while the others go on; one that dies again before it did anything is not.
 */
import { failure } from "./error.js";
import { Queue } from "./queue.js";
import type { Counters } from "./api.js";
import type { FromMember, Loading, Source, ToMember } from "./protocol.js";
export type Work = Omit<Loading, "assistant" | "warnings"> & { index: number; context?: number };

/** a worker that the page started */
export type Hired = {
  port: MessagePort;
  /** ends it */
  dismiss: () => void;
  /** fulfils with the reason when it could not be started */
  failed: Promise<string>;
};

/** An instance, and the worker that has it. */
class Member {
  /** It is being set up. */
  starting = false;
  /** It did something since it was set up. */
  proven = true;
  /** what it found when it had loaded: `{device, memory}` */
  found: any = null;
  #hired: Hired | null = null;
  #asking: ((counters: Counters | null) => void)[] = [];

  declare work: Work;
  declare hire: () => Promise<Hired>;
  declare hear: { progress: (event: any) => void; told: (told: any) => void; died: (reason: string) => void };

  /** @param work what its worker has to load; with a `context`, the draft model */
  constructor(work: Work, hire: () => Promise<Hired>, hear: { progress: (event: any) => void; told: (told: any) => void; died: (reason: string) => void }) {
    this.work = work;
    this.hire = hire;
    this.hear = hear;
  }

  get isHere() {
    return this.#hired !== null;
  }

  /** Sets it up in a new worker; rejects with what the worker throws. */
  async start() {
    this.starting = true;
    try {
      const hired = await this.hire();
      await this.#load(hired).catch((error) => {
        hired.dismiss();
        throw error;
      });
    } finally {
      this.starting = false;
    }
  }

  #load(hired: Hired) {
    const lock = `foretoken/worker/${crypto.randomUUID()}`;
    return new Promise((resolve, reject) => {
      const gone = (reason: string) => {
        reject(failure("internal", `a worker died: ${reason}`));
        this.#lose(hired, reason);
      };
      hired.failed.then(gone);
      hired.port.onmessage = ({ data }: { data: FromMember }) => {
        // Whatever ends a worker frees its locks: a crash, want of memory, a page that closes it.
        if (data.type === "here") navigator.locks.request(lock, () => gone("it ended without a word"));
        if (data.type === "progress") this.hear.progress(data.progress);
        if (data.type === "told") this.hear.told({ text: data.text, report: data.report });
        if (data.type === "counters") this.#asking.shift()?.(data.counters);
        if (data.type === "fatal") gone(data.error.message);
        if (data.type === "error") reject(data.error);
        if (data.type !== "ready") return;
        this.#hired = hired;
        this.found = { device: data.device, memory: data.memory };
        resolve(undefined);
      };
      this.#say(hired, { type: "load", load: { ...this.work, lock } });
    });
  }

  #say({ port }: Hired, message: ToMember) {
    port.postMessage(message);
  }

  #lose(hired: Hired, reason: string) {
    if (this.#hired !== hired) return;
    hired.dismiss();
    this.#hired = null;
    for (const answer of this.#asking.splice(0)) answer(null);
    this.hear.died(reason);
  }

  /** @param order lost where there is no worker */
  order(order: object) {
    if (this.#hired) this.#say(this.#hired, { type: "order", order });
  }

  /** @returns what it asked of its device; null where there is no worker */
  async counters(): Promise<Counters | null> {
    if (!this.#hired) return null;
    this.#say(this.#hired, { type: "counters" });
    return new Promise((resolve) => this.#asking.push(resolve));
  }
}

/** All of them, as the engine's module wants them (src/wasm/engine/parallel.rs: `Workers`). */
export class Crew {
  /** that of the draft model last */
  #members: Member[] = [];
  #reports: Queue<{ text: number | null; report: object }> = new Queue();
  /** the order that began the last text */
  #began: object | null = null;

  declare work: Omit<Loading, "model" | "assistant" | "warnings"> & { target: { model: Source }; assistant: { model?: Source } };
  declare hire: () => Promise<Hired>;
  declare tell: (event: any) => void;

  /**
   * @param work what workers have to know to load a model
   * @param hire asks the page for a worker
   * @param tell gets the progress of the first target and of the draft model
   */
  constructor(
    work: Omit<Loading, "model" | "assistant" | "warnings"> & { target: { model: Source }; assistant: { model?: Source } },
    hire: () => Promise<Hired>,
    tell: (event: any) => void,
  ) {
    this.work = work;
    this.hire = hire;
    this.tell = tell;
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
        this.#members.pop();
        return message;
      },
    );
    await Promise.all(targets.map((member) => member.start()));
    return { device: targets[0].found.device, failed: (await assisted) ?? null };
  }

  /** @param shown whether its progress is of interest */
  #add(work: any, shown: boolean) {
    const member: Member = new Member(work, this.hire, {
      progress: (event) => shown && this.tell(event),
      told: (told) => {
        member.proven ||= !!told.report.verified;
        this.#reports.push(told);
      },
      died: (reason) => this.#died(member, reason),
    });
    this.#members.push(member);
    return member;
  }

  #died(member: Member, reason: string) {
    const { index: server, context } = member.work;
    // Between two texts nothing waits for it.
    if (!this.#began) return;
    if (context !== undefined) return this.#report({ no_drafter: { error: lost(reason) } });
    if (!member.proven) return this.#report({ gone: { server, error: lost(reason) } });
    this.#report({ lost: { server, reason } });
    this.#replace(member);
  }

  async #replace(member: Member) {
    const { index: server, context } = member.work;
    member.proven = false;
    try {
      await member.start();
      member.order(this.#began as object);
    } catch ({ message }) {
      this.#report(context === undefined ? { gone: { server, error: lost(message) } } : { no_drafter: { error: lost(message) } });
    }
  }

  /** @param report what an instance would say, were it here */
  #report(report: object) {
    this.#reports.push({ text: null, report });
  }

  /** @param order a text begins: members without a worker get another one */
  begin(order: object) {
    this.#began = order;
    // What was said of the text before is of no interest any more, and who waited for it was left.
    this.#reports = new Queue();
    for (const member of this.#members) {
      if (member.isHere) member.order(order);
      else if (!member.starting) this.#replace(member);
    }
  }

  order(to: number, order: object) {
    this.#members[to]?.order(order);
  }

  /** @param within milliseconds */
  report(within?: number) {
    return this.#reports.shift(within);
  }

  /** GPU memory of a target and of the draft model. */
  memory() {
    const drafter = this.#members.find(({ work }) => work.context !== undefined);
    return { target: this.#members[0].found.memory, draft: drafter?.found.memory ?? null };
  }

  /** The sums of what all of them asked of their devices. */
  async counters() {
    const all = await Promise.all(this.#members.map((member) => member.counters()));
    const sums: Record<string, number> = {};
    for (const one of all) for (const [name, count] of Object.entries(one ?? {})) sums[name] = (sums[name] ?? 0) + count;
    return sums;
  }
}

/** An error as the engine's module knows it. */
const lost = (reason: string) => ({ code: "device-lost", detail: { reason } });
