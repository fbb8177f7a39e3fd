/**
 * Several targets: each instance of a model is in a worker of its own, and takes orders from the worker that writes the
 * text. A worker that dies is replaced while the others go on; one that dies again before it did anything is not.
 */
import { failure } from "./error.js";
import { Queue } from "./queue.js";

/** @import { FromMember, Loading, Source, ToMember } from "./protocol.js" */
/** @typedef {Omit<Loading, "assistant" | "warnings"> & { index: number, context?: number }} Work */

/**
 * @typedef {object} Hired a worker that the page started
 * @property {MessagePort} port
 * @property {() => void} dismiss ends it
 * @property {Promise<string>} failed fulfils with the reason when it could not be started
 */

/** An instance, and the worker that has it. */
class Member {
  /** It is being set up. */
  starting = false;
  /** It did something since it was set up. */
  proven = true;
  /** @type {any} what it found when it had loaded: `{device, memory}` */
  found = null;
  /** @type {Hired | null} */
  #hired = null;
  /** @type {((counters: object | null) => void)[]} */
  #asking = [];

  /**
   * @param {Work} work what its worker has to load; with a `context`, the draft model
   * @param {() => Promise<Hired>} hire
   * @param {{ progress: (event: any) => void, told: (told: any) => void, died: (reason: string) => void }} hear
   */
  constructor(work, hire, hear) {
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

  /** @param {Hired} hired */
  #load(hired) {
    const lock = `foretoken/worker/${crypto.randomUUID()}`;
    return new Promise((resolve, reject) => {
      const gone = (/** @type {string} */ reason) => {
        reject(failure("internal", `a worker died: ${reason}`));
        this.#lose(hired, reason);
      };
      hired.failed.then(gone);
      hired.port.onmessage = (/** @type {{ data: FromMember }} */ { data }) => {
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

  /** @param {Hired} hired @param {ToMember} message */
  #say({ port }, message) {
    port.postMessage(message);
  }

  /** @param {Hired} hired @param {string} reason */
  #lose(hired, reason) {
    if (this.#hired !== hired) return;
    hired.dismiss();
    this.#hired = null;
    for (const answer of this.#asking.splice(0)) answer(null);
    this.hear.died(reason);
  }

  /** @param {object} order lost where there is no worker */
  order(order) {
    if (this.#hired) this.#say(this.#hired, { type: "order", order });
  }

  /** @returns {Promise<any>} what it asked of its device; null where there is no worker */
  async counters() {
    if (!this.#hired) return null;
    this.#say(this.#hired, { type: "counters" });
    return new Promise((resolve) => this.#asking.push(resolve));
  }
}

/** All of them, as the engine's module wants them (src/wasm/parallel.rs: `Workers`). */
export class Crew {
  /** @type {Member[]} that of the draft model last */
  #members = [];
  /** @type {Queue<{ text: number | null, report: object }>} */
  #reports = new Queue();
  /** @type {object | null} the order that began the last text */
  #began = null;

  /**
   * @param {Omit<Loading, "model" | "assistant" | "warnings"> & { target: { model: Source }, assistant: { model?: Source } }} work what workers have to know
   *   to load a model
   * @param {() => Promise<Hired>} hire asks the page for a worker
   * @param {(event: any) => void} tell hears of the progress of the first target and of the draft model
   */
  constructor(work, hire, tell) {
    this.work = work;
    this.hire = hire;
    this.tell = tell;
  }

  /**
   * Loads the models; rejects with what a target's worker throws.
   * @param {boolean} withDrafter
   * @param {number} context positions of the target's cache
   */
  async start(withDrafter, context) {
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

  /** @param {any} work @param {boolean} shown whether its progress is of interest */
  #add(work, shown) {
    /** @type {Member} */
    const member = new Member(work, this.hire, {
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

  /** @param {Member} member @param {string} reason */
  #died(member, reason) {
    const { index: server, context } = member.work;
    // Between two texts nobody waits for it.
    if (!this.#began) return;
    if (context !== undefined) return this.#report({ no_drafter: { error: lost(reason) } });
    if (!member.proven) return this.#report({ gone: { server, error: lost(reason) } });
    this.#report({ lost: { server, reason } });
    this.#replace(member);
  }

  /** @param {Member} member */
  async #replace(member) {
    const { index: server, context } = member.work;
    member.proven = false;
    try {
      await member.start();
      member.order(/** @type {object} */ (this.#began));
    } catch ({ message }) {
      this.#report(context === undefined ? { gone: { server, error: lost(message) } } : { no_drafter: { error: lost(message) } });
    }
  }

  /** @param {object} report what an instance would say, were it here */
  #report(report) {
    this.#reports.push({ text: null, report });
  }

  /** @param {object} order a text begins: whoever is not here gets another worker */
  begin(order) {
    this.#began = order;
    // What was said of the text before is of no interest any more, and who waited for it was left.
    this.#reports = new Queue();
    for (const member of this.#members) {
      if (member.isHere) member.order(order);
      else if (!member.starting) this.#replace(member);
    }
  }

  /** @param {number} to @param {object} order */
  order(to, order) {
    this.#members[to]?.order(order);
  }

  /** @param {number} [within] milliseconds */
  report(within) {
    return this.#reports.shift(within);
  }

  /** What a target, and the draft model, takes of the GPU. */
  memory() {
    const drafter = this.#members.find(({ work }) => work.context !== undefined);
    return { target: this.#members[0].found.memory, draft: drafter?.found.memory ?? null };
  }

  /** The sums of what all of them asked of their devices. */
  async counters() {
    const all = await Promise.all(this.#members.map((member) => member.counters()));
    /** @type {Record<string, number>} */
    const sums = {};
    for (const one of all) for (const [name, count] of Object.entries(one ?? {})) sums[name] = (sums[name] ?? 0) + count;
    return sums;
  }
}

/** An error as the engine's module knows it. @param {string} reason */
const lost = (reason) => ({ code: "device-lost", detail: { reason } });
