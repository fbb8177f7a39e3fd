// The download suites in WebKit, for Safari's sake: WebKitGTK has no WebGPU, but what is done with files needs none. Under
// WebDriver its file system refuses everything, because such a session may leave no data; so here the page asks the
// server what to run.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { needWebKit } from "../../scripts/system.mjs";
import { files } from "./downloads.mjs";
import { check, equal, faults, url } from "./harness.mjs";
import { RUN, fresh } from "./synthetic.mjs";

const browser = needWebKit();
const FEATURES = ["FileSystem", "AccessHandle", "FileSystemWritableStream", "StorageAPI", "StorageAPIEstimate"];

const PAGE = `<!doctype html><title>files</title><script type="module">
  ${RUN}
  const post = (path, body) => fetch(path, { method: "POST", body: JSON.stringify(body) });
  const write = async ({ model, prompt, ids }) => {
    const { Engine } = await import("/engine.js");
    const engine = await Engine.load(model, { cache: false });
    const texts = [];
    for (const speculation of ["off", "auto"]) texts.push((await engine.generate(prompt, { max_new_tokens: ids.length, speculation }).result).token_ids);
    const { device, warnings } = engine;
    engine.close();
    return { texts, device, warnings };
  };
  for (;;) {
    const { id, job, message } = await (await post("order")).json();
    if (message) running.forEach((worker) => worker.postMessage(message));
    else (job.prompt ? write(job) : run(job)).then((result) => post("done", { id, result }), (error) => post("done", { id, failed: error.message }));
  }
</script>`;

/** Orders to a page, and the promises that wait for them. */
class Page {
  #orders = [];
  /** @type {import("node:http").ServerResponse | null} the page's open question */
  #asking = null;
  #calls = [];

  order(order) {
    if (order) this.#orders.push(order);
    if (!this.#asking || !this.#orders.length) return;
    this.#asking.writeHead(200, { "Content-Type": "application/json" }).end(JSON.stringify(this.#orders.shift()));
    this.#asking = null;
  }

  run(job) {
    return new Promise((resolve, reject) => {
      this.#calls.push({ resolve, reject });
      this.order({ id: this.#calls.length - 1, job: { synchronous: false, ...job } });
    });
  }

  async answer(what, request, response) {
    const body = await text(request);
    if (what === "order") {
      this.#asking = response;
      return this.order();
    }
    const { id, result, failed } = JSON.parse(body);
    response.writeHead(204).end();
    if (failed === undefined) this.#calls[id].resolve(result);
    else this.#calls[id].reject(new Error(failed));
  }

  end(reason) {
    for (const { reject } of this.#calls) reject(new Error(reason));
  }
}

/** @type {Page[]} */
const pages = [];

// The answer to a question may come late; that it was asked is enough.
faults.webkit = async (request, response, [number, what]) => {
  if (!what) return response.writeHead(200, { "Content-Type": "text/html" }).end(PAGE);
  await Promise.all([pages[number].answer(what, request, response), response.writableEnded || once(response, "close")]);
};

let screen, display;
export const before = async () => {
  // With a reset after its last client, the next one might come in the middle of that.
  screen = spawn("Xvfb", ["-displayfd", "3", "-noreset", "-nolisten", "tcp"], { stdio: ["ignore", "ignore", "ignore", "pipe"] });
  const [number] = await once(screen.stdio[3], "data");
  display = `:${String(number).trim()}`;
};
export const after = () => screen.kill();

async function open() {
  const home = mkdtempSync(join(tmpdir(), "foretoken-webkit-"));
  const folders = Object.fromEntries(["HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR"].map((name) => [name, home]));
  const page = new Page();
  const address = `${url}/webkit/${pages.push(page) - 1}/`;
  const env = { ...process.env, ...folders, DISPLAY: display, GDK_BACKEND: "x11" };
  // WebKit's own processes inherit the pipe. So it closes when the last of them has ended, and no file in `home` appears after that.
  const started = spawn(browser, [`--features=${FEATURES.map((feature) => `+${feature}`)}`, address], { env, stdio: ["ignore", "ignore", "pipe"] });
  started.stderr.resume();
  started.once("exit", (code, signal) => page.end(`WebKit ended: ${code ?? signal}`));
  const ended = once(started, "close");
  return {
    run: (job) => page.run(job),
    tell: (message) => page.order({ message }),
    async close() {
      started.kill();
      await ended;
      rmSync(home, { recursive: true });
    },
  };
}

const { prompt, greedy_ids } = JSON.parse(readFileSync(new URL("../golden/tales.json", import.meta.url), "utf8")).cases[12];

export const tests = browser
  ? {
      ...fresh(files, open),
      async "WebKit writes on the CPU what transformers writes"() {
        const page = await open();
        const ids = greedy_ids.slice(0, 24);
        const { texts, device, warnings } = await page.run({ model: "/models/tales/target", prompt, ids });
        await page.close();
        equal(device.backend, "Cpu", "where it ran");
        check(
          warnings.some((warning) => warning.includes("run on the CPU")),
          warnings.join(),
        );
        for (const text of texts) equal(text, ids, "the text");
      },
    }
  : {};
