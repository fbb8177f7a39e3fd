/** The bar of a download: progress, speed, time left; pause and resume. */
import { at, duration, size } from "./dom.js";

/** Seconds per mean speed. */
const WINDOW = 5;

export class Download {
  files = new Map();
  /** @type {{ at: number, bytes: number }[]} */
  past = [];
  /** Ends the current attempt. @type {AbortController} */
  pause = new AbortController();
  #resume = () => {};

  /** @param {string} name of the model */
  constructor(name) {
    this.name = name;
    at("pause").onclick = () => (this.pause.signal.aborted ? this.#resume() : this.pause.abort());
    this.#tell(`${name}: starting`, 0);
    at("download").hidden = false;
  }

  #tell(words, part, pausing = false) {
    at("doing").textContent = words;
    at("bar").value = part;
    at("pause").hidden = !pausing;
  }

  show({ phase, model, file, loaded, total }) {
    if (phase === "download") {
      this.files.set(`${model}/${file}`, { loaded, total });
      const [done, all] = this.#sum();
      this.#tell(`${this.name}: ${size(done)} of ${size(all)}${this.#pace(done, all)}`, done / all, true);
    } else if (phase === "upload") this.#tell(`${this.name}: into memory, ${size(loaded)} of ${size(total)}`, loaded / total);
    else this.#tell(`${this.name}: compiling, and checking this device`, loaded / total);
  }

  #sum() {
    return ["loaded", "total"].map((key) => [...this.files.values()].reduce((sum, each) => sum + each[key], 0));
  }

  #pace(done, all) {
    const now = performance.now() / 1000;
    this.past.push({ at: now, bytes: done });
    while (this.past[0].at < now - WINDOW) this.past.shift();
    const [{ at: since, bytes }] = this.past;
    // Stored files have no download speed.
    if (now - since < 1 || done === all) return "";
    const speed = (done - bytes) / (now - since);
    return speed > 0 ? `, ${size(speed)}/s, ${duration((all - done) / speed)} left` : ", waiting";
  }

  /** Waits until the visitor resumes. */
  async resumed(signal) {
    const [done, all] = this.#sum();
    this.#tell(`${this.name}: paused at ${size(done)} of ${size(all)}; this much is kept`, all ? done / all : 0, true);
    at("pause").textContent = "Resume";
    try {
      await new Promise((resolve, reject) => {
        this.#resume = () => resolve(undefined);
        signal.addEventListener("abort", () => reject(Object.assign(new Error("stopped"), { code: "aborted" })), { once: true });
      });
    } finally {
      at("pause").textContent = "Pause";
    }
    this.pause = new AbortController();
    this.past = [];
    this.files.clear();
  }

  end() {
    at("download").hidden = true;
  }
}
