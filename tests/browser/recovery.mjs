// What breaks under a page: the GPU process, the device, the engine's own worker; and what is too large.
import { Skipped, browserName, check, countWorkers, devtools, equal, faults, launch, open, rewrite, teach, until } from "./harness.mjs";
import { quantised, synthetic } from "./llama.mjs";

const PROMPT = "Once upon a time there was a king. Once upon a time";
const OPTIONS = { max_new_tokens: 20, drafter: "draft_model", num_assistant_tokens_schedule: "heuristic_transient" };

/** 600 MB of weights, most of them in an embedding table and an LM head; a cache that no buffer holds; and one that no device has room for. */
const large = synthetic({ hidden_size: 1024, vocab_size: 71_680, num_hidden_layers: 2, heads: 16, head_dim: 64, intermediate_size: 1024 });
const greedy = synthetic({
  hidden_size: 64,
  vocab_size: 4096,
  num_hidden_layers: 24,
  heads: 32,
  head_dim: 64,
  intermediate_size: 64,
  max_position_embeddings: 131_072,
});
const vast = synthetic({
  hidden_size: 64,
  vocab_size: 4096,
  num_hidden_layers: 24,
  heads: 1024,
  head_dim: 128,
  intermediate_size: 64,
  max_position_embeddings: 1024,
});
/** Sizes of SmolLM2-1.7B, a GGUF file of 1.1 GB. */
const billions = quantised({ hidden_size: 2048, vocab_size: 49_152, num_hidden_layers: 24, heads: 32, head_dim: 64, intermediate_size: 8192 });
faults.large = large.answer;
faults.billions = billions.answer;
faults.greedy = greedy.answer;
faults.vast = vast.answer;

/** More than an address can count: the allocator gives up, which is a trap. It comes after the first tokens. */
async function trap() {
  const exports = await init();
  const { postMessage } = self;
  self.postMessage = (message) => {
    postMessage(message);
    if (message.event) setTimeout(() => exports.__wbindgen_malloc(2 ** 32 - 16, 1));
  };
}

/** The readback of a text that waits for the crash. */
const HELD = 5;

/** Holds a readback back until the message "crashed". */
function hold() {
  const { mapAsync } = GPUBuffer.prototype;
  let seen = 0;
  GPUBuffer.prototype.mapAsync = async function (...range) {
    if (++seen === HELD) {
      self.postMessage("held");
      await new Promise((crashed) => addEventListener("message", ({ data }) => data === "crashed" && crashed()));
    }
    return mapAsync.apply(this, range);
  };
}

let browser, page, crashes, undisturbed;
/** Reading a model of 1.1 GB takes minutes. */
export const long = Boolean(process.env.LARGE);
export const before = async () => {
  browser = await launch();
  page = await open(browser);
  await teach(page, { trap, hold: String(hold).replace("HELD", HELD) });
  crashes = 0;
  await load("/models/tales/draft", { max_context: 128 });
  undisturbed = await generate(OPTIONS);
};
export const after = () => browser.close();

const load = (model, options) =>
  page.evaluate(
    async ([model, options]) => {
      globalThis.engine?.close();
      globalThis.engine = await Engine.load(model, options);
    },
    [model, options],
  );
const generate = (options) => page.evaluate(([prompt, options]) => engine.generate(prompt, options).result, [PROMPT, options]);

/** The number of the browser's GPU process; undefined if it has none. */
const gpuProcess = async (client) => (await client.send("SystemInfo.getProcessInfo")).processInfo.find(({ type }) => type === "GPU")?.id;

/** Crashes the browser's GPU process in the middle of a text; returns the text's outcome, and the seconds from the crash to it. */
async function crash() {
  const client = await devtools(browser);
  const process = await gpuProcess(client);
  const outcome = page.evaluate(
    async ([prompt, options]) => {
      const [worker] = workers;
      globalThis.held = new Promise((held) => worker.addEventListener("message", ({ data }) => data === "held" && held()));
      // The worker receives this before the call, so it holds a readback of this text.
      worker.postMessage("hold");
      const stream = engine.generate(prompt, options);
      const ids = [];
      const error = await failed(
        (async () => {
          for await (const { tokens } of stream) ids.push(...tokens.map(({ id }) => id));
        })(),
      );
      return { ids, error, generation: error ? null : await stream.result };
    },
    [PROMPT, OPTIONS],
  );
  const early = outcome.then(({ ids, error }) =>
    Promise.reject(new Error(`the text ended before its readback ${HELD}: ${ids.length} tokens, ${JSON.stringify(error)}`)),
  );
  early.catch(() => {});
  await Promise.race([page.evaluate(() => held), early]);
  crashes++;
  // The process ends before it answers.
  client.send("Browser.crashGpuProcess").catch(() => {});
  await until("another GPU process", async () => (await gpuProcess(client)) !== process);
  const crashed = performance.now();
  await page.evaluate(() => workers[0].postMessage("crashed"));
  return { ...(await outcome), seconds: (performance.now() - crashed) / 1000 };
}

/** Loads a model with at least this many bytes of weights, and lets it write. */
async function passes(model, least) {
  const began = performance.now();
  await load(model, { max_context: 64, cache: false });
  const seconds = (performance.now() - began) / 1000;
  const { weights, peak } = await page.evaluate(async () => {
    const { stats } = await engine.generate([1, 2, 3], { max_new_tokens: 2 }).result;
    return { weights: engine.memory.target.weights, peak: stats.wasm_memory };
  });
  check(weights > least, `${weights} bytes of weights`);
  check(peak < 256e6, `${peak} bytes of WASM memory`);
  console.log(`      ${(weights / 1e6).toFixed(0)} MB of weights, peak WASM memory ${(peak / 1e6).toFixed(0)} MB, loaded in ${seconds.toFixed(1)} s`);
}

/** Seconds within which a GPU that is not given back is reported. */
const SOON = 3;

export const tests = {
  async "an adapter that is not there at once is asked for again; without one, auto takes the CPU"() {
    /** @type {[string, string, string][]} what the browser does, the device wanted, and what comes of it */
    const cases = [
      ["(asked++ ? requestAdapter.call(this, options) : null)", "webgpu", "BrowserWebGpu"],
      ["null", "webgpu", "webgpu-unavailable"],
      ["null", "auto", "Cpu"],
      ["Promise.reject(new Error('broken'))", "auto", "Cpu"],
      ["Promise.reject(new Error('broken'))", "webgpu", "webgpu-unavailable"],
      ["new Promise(() => {})", "auto", "Cpu"],
    ];
    for (const [adapter, device, wanted] of cases) {
      const page = await open();
      const broken = `let asked = 0;
        const { requestAdapter } = GPU.prototype;
        GPU.prototype.requestAdapter = function (options) { return ${adapter}; };`;
      await rewrite(page, "**/worker.js", (text) => broken + text);
      const [found, words] = await page.evaluate(async (device) => {
        try {
          const engine = await Engine.load(TALES, { device, max_context: 64 });
          const { text } = await engine.generate("Once", { max_new_tokens: 2 }).result;
          return [engine.device.backend, text && engine.warnings.join()];
        } catch ({ code, message }) {
          return [code, message];
        }
      }, device);
      equal(found, wanted, `${device}, ${adapter}: ${words}`);
      if (wanted === "Cpu") check(words.includes("the browser gives no adapter"), words);
      check(!/compiled|apt-get|wgpu/.test(words), words);
      await page.close();
    }
  },

  async "a trap of the module costs one call: the next one has a new worker"() {
    await page.evaluate(() => workers[0].postMessage("trap"));
    const error = await page.evaluate((prompt) => failed(engine.generate(prompt, { max_new_tokens: 60 }).result), PROMPT);
    equal([error?.is, error?.code], [true, "internal"], JSON.stringify(error));
    const again = await generate(OPTIONS);
    equal(again.token_ids, undisturbed.token_ids, "ids of the new worker");
    equal(await countWorkers(page), 1, "workers");
  },

  async "the GPU process crashes in the middle of a text: it goes on and is the same"() {
    const { ids, error, generation, seconds } = await crash();
    equal(error, null, "error");
    equal(ids, undisturbed.token_ids, "streamed ids");
    equal(generation.text, undisturbed.text, "text");
    check(
      generation.stats.warnings.some((warning) => warning.includes("the GPU was lost")),
      "a warning says so",
    );
    console.log(`      the text was finished ${seconds.toFixed(1)} s after the crash`);
    equal((await generate(OPTIONS)).token_ids, undisturbed.token_ids, "the next text");
  },

  async "it crashes again, and the browser gives no adapter any more: gpu-blocked, and soon"() {
    if (!crashes) await crash();
    const { ids, error, seconds } = await crash();
    equal(error?.code, "gpu-blocked", JSON.stringify(error));
    equal(ids, undisturbed.token_ids.slice(0, ids.length), "what was written before");
    check(ids.length < undisturbed.token_ids.length, "it crashed in the middle");
    check(seconds < SOON, `${seconds} s`);
    const later = await page.evaluate(async (prompt) => {
      const began = performance.now();
      const error = await failed(engine.generate(prompt).result);
      return { error, seconds: (performance.now() - began) / 1000 };
    }, PROMPT);
    equal(later.error?.code, "gpu-blocked", "the next call");
    check(later.seconds < SOON, `${later.seconds} s`);
    console.log(`      told ${seconds.toFixed(1)} s after the crash, and by the next call in ${later.seconds.toFixed(1)} s`);
    const other = await page.evaluate(() => failed(Engine.load(DRAFT)));
    equal(other?.code, "webgpu-unavailable", "a new engine");
    await browser.close();
    await before();
  },

  async "a device that is lost again and again is an error, not a loop"() {
    const patch =
      "const ask = GPUAdapter.prototype.requestDevice; let asked = 0;" +
      "GPUAdapter.prototype.requestDevice = async function (want) { asked++; const device = await ask.call(this, want); device.destroy(); return device; };" +
      "self.asked = () => asked;";
    await rewrite(page, "**/worker.js", (text) => `${patch}\n${text}`);
    const error = await page.evaluate(() => failed(Engine.load(DRAFT, { max_context: 64 })));
    equal([error?.is, error?.code], [true, "device-lost"], JSON.stringify(error));
    await page.unroute("**/worker.js");
  },

  async "what no buffer can hold is refused with need and limit before the weights are fetched"() {
    greedy.served.clear();
    const error = await page.evaluate(() => failed(Engine.load("/greedy/model", { max_context: 131_072 })));
    equal(error?.code, "out-of-gpu-memory", JSON.stringify(error));
    const { need, limit } = error.detail;
    check(need > limit && limit > 0, JSON.stringify(error.detail));
    // The header comes in the first chunk.
    check(greedy.served.get("model.safetensors") <= 8 << 20, `${greedy.served.get("model.safetensors")} bytes of weights were fetched`);
  },

  async "what the driver refuses is out-of-gpu-memory, and a smaller model loads afterwards"() {
    if (browserName === "firefox") throw new Skipped("lavapipe refuses nothing below its limits");
    const error = await page.evaluate(() => failed(Engine.load("/vast/model", { max_context: 1024 })));
    equal(error?.code, "out-of-gpu-memory", JSON.stringify(error));
    check(error.detail.need > 8e9 && error.detail.limit === null, JSON.stringify(error.detail));
    await load("/models/tales/draft", { max_context: 128 });
    equal((await generate(OPTIONS)).token_ids, undisturbed.token_ids, "ids");
  },

  async "600 MB of weights pass through less than 256 MB of WASM memory"() {
    await passes("/large/model", 600e6);
  },

  async "1.7 billion weights in Q4_K_M pass through less than 256 MB of WASM memory"() {
    if (!process.env.LARGE) throw new Skipped("it takes minutes; with LARGE=1 it runs");
    await passes("/billions/model-Q4_K_M.gguf", 1e9);
  },
};
