// The CPU as a device in a page: the texts of transformers with every drafter, also without WebGPU.
import { readFileSync, readdirSync } from "node:fs";
import { browserName, check, countWorkers, equal, faults, launchWithFlags, launchWithoutWebGpu, open, rewrite, teach, until } from "./harness.mjs";
import { synthetic } from "./llama.mjs";

const tales = JSON.parse(readFileSync(new URL("../golden/tales.json", import.meta.url), "utf8")).cases;
const folder = new URL("../golden/models/", import.meta.url);
const FEW = 24;
/** More tokens than are written before an abort takes effect, on any machine. */
const MANY = 400;

/** A tokenizer of `count` tokens for models that have none. @param {number} count */
const tokenizer = (count) => {
  const vocab = Object.fromEntries(Array.from({ length: count }, (_, id) => [String.fromCodePoint(0x4e00 + id), id]));
  return JSON.stringify({ version: "1.0", added_tokens: [], model: { type: "BPE", vocab, merges: [] } });
};
faults.reference = (_, response, [model, file]) => {
  const read = (name) => readFileSync(new URL(`${model}/${name}`, folder));
  const content =
    file === "tokenizer.json" ? tokenizer(JSON.parse(read("config.json")).vocab_size) : readdirSync(new URL(`${model}/`, folder)).includes(file) && read(file);
  response.writeHead(content ? 200 : 404).end(content || "");
};

/** A target with an MTP layer, and the tokenizer of the tales. */
const MTP = new URL("../golden/drafters/qwen35-mtp/", import.meta.url);
faults.mtp = (_, response, [, file]) => {
  const place = file === "tokenizer.json" ? new URL("../../models/tales/target/", import.meta.url) : MTP;
  const content = readdirSync(place).includes(file) && readFileSync(new URL(file, place));
  response.writeHead(content ? 200 : 404).end(content || "");
};

/** Targets and drafters that were trained for them. The PARD model is the draft model of the tales with a token as its mask. */
const DRAFTERS = new URL("../golden/drafters/", import.meta.url);
faults.drafters = (_, response, path) => {
  const tales = new URL("../../models/tales/", import.meta.url);
  const [name, file] = [path.slice(0, -1).join("/"), path.at(-1)];
  const isPard = name === "pard";
  const place = isPard ? new URL("draft/", tales) : new URL(`./${name}/`, DRAFTERS);
  const from = file === "tokenizer.json" && path.at(-2) === "target" ? new URL("target/", tales) : place;
  const content = readdirSync(from).includes(file) && readFileSync(new URL(file, from));
  const config = isPard && file === "config.json" && JSON.stringify({ ...JSON.parse(content), pard_token: 4001 });
  response.writeHead(content ? 200 : 404).end(config || content || "");
};

/** More weights than a module's memory has room for. */
const huge = synthetic({ hidden_size: 1024, vocab_size: 4096, num_hidden_layers: 24, heads: 16, head_dim: 64, intermediate_size: 20_480 });
faults.huge = huge.answer;

/** In the worker: takes all memory that the engine's module could still get. */
function fill() {
  for (let pages = 2 ** 15; pages >= 1; ) {
    try {
      memory.grow(pages);
    } catch {
      pages /= 2;
    }
  }
  postMessage("full");
}

/** Options that load the engine's modules: the one for relaxed SIMD, and the plain one. */
const MODULES = [{}, { wasm: "/foretoken_bg.wasm" }];

/** The token ids of a reference case. @param {string} model */
function golden(model) {
  const bytes = readFileSync(new URL(`${model}/golden.safetensors`, folder));
  const length = Number(bytes.readBigUInt64LE());
  const header = JSON.parse(bytes.toString("utf8", 8, 8 + length));
  const ids = (name) => {
    const [begin, end] = header[name].data_offsets.map((offset) => 8 + length + offset);
    return Array.from({ length: (end - begin) / 8 }, (_, i) => Number(bytes.readBigInt64LE(begin + 8 * i)));
  };
  return { model, prompt: ids("prompt_ids"), ids: ids("greedy_ids") };
}

let page;
export const before = async () => {
  page = await open();
};
export const after = () => page.close();

/** Writes in a page that has the engine; what each text is and who guessed it. */
const write = (page, texts, load) =>
  page.evaluate(
    async ([texts, load]) => {
      const engine = await Engine.load(TALES, { assistant_model: DRAFT, max_context: 512, ...load });
      const results = [];
      for (const [prompt, options] of texts) {
        const { token_ids: ids, stats } = await engine.generate(prompt, options).result;
        results.push({ ids, accepted: stats.num_accepted_draft_tokens });
      }
      const { device, warnings } = engine;
      engine.close();
      return { results, device, warnings };
    },
    [texts, load],
  );

export const tests = {
  async "threads of an isolated page write the same text, and end with the engine; elsewhere there is one"() {
    const isolated = await open(undefined, "/isolated/");
    const { prompt_ids, greedy_ids } = tales[1];
    const texts = [[prompt_ids, { max_new_tokens: FEW }]];
    const named = (/** @type {any} */ { results: [{ ids }], device, warnings }) => [device.name, ids.join(), warnings.length];
    const ids = greedy_ids.slice(0, FEW).join();
    for (const load of [{ threads: 1 }, { threads: 2 }, { threads: 3, wasm: "/foretoken_bg.wasm" }, { threads: 2, dtype: "q8" }]) {
      const [name, found, warned] = named(await write(isolated, texts, { device: "cpu", ...load }));
      equal([name, warned], [`CPU with ${load.threads} thread${load.threads > 1 ? "s" : ""}`, 0], "what computes");
      if (!load.dtype) equal(found, ids, `ids with ${load.threads} threads`);
      else equal(found, named(await write(page, texts, { device: "cpu", dtype: load.dtype }))[1], "ids with 8 bits");
    }
    const cores = Math.min(await isolated.evaluate(() => navigator.hardwareConcurrency), 4);
    equal(named(await write(isolated, texts, { device: "cpu" }))[0], `CPU with ${cores} thread${cores > 1 ? "s" : ""}`, "by default");
    await until("no workers", async () => !(await countWorkers(isolated)));
    await isolated.close();
    equal(named(await write(page, texts, { device: "cpu", threads: 2 })), ["CPU with 1 thread", ids, 1], "without isolation");
  },

  async "every architecture writes what transformers writes"() {
    const cases = readdirSync(folder).map(golden);
    check(cases.length >= 32, "architectures");
    // The modules differ in two functions, which no architecture adds to: each takes every second one.
    const wanted = cases.map((golden, i) => ({ ...golden, module: MODULES[i % MODULES.length] }));
    const found = await page.evaluate(async (wanted) => {
      const found = [];
      for (const { model, prompt, ids, module } of wanted) {
        const engine = await Engine.load(`/reference/${model}`, { device: "cpu", kv_dtype: "f32", arithmetic: "f32", max_context: 128, ...module });
        const options = [{ speculation: "off" }, { drafter: "lookup", num_assistant_tokens_schedule: "constant", max_matching_ngram_size: 1 }];
        const texts = [];
        for (const how of options) texts.push((await engine.generate(prompt, { max_new_tokens: ids.length, ...how }).result).token_ids);
        found.push(texts);
        engine.close();
      }
      return found;
    }, wanted);
    for (const [i, texts] of found.entries()) {
      for (const ids of texts) {
        // After an end of text nothing is written.
        check(ids.length > 0, wanted[i].model);
        equal(ids, wanted[i].ids.slice(0, ids.length), wanted[i].model);
      }
    }
    check(found.filter(([ids], i) => ids.length === wanted[i].ids.length).length > cases.length / 2, "most texts are whole");
  },

  async "the MTP layer of a checkpoint drafts on every device, and the text is that of the model alone"() {
    const { prompt_ids: prompt, greedy_ids: ids } = JSON.parse(readFileSync(new URL("mtp.json", MTP), "utf8")).cases[0];
    for (const device of ["cpu", "webgpu"]) {
      const { texts, origins, error } = await page.evaluate(
        async ([device, prompt]) => {
          const options = { max_new_tokens: 40, drafter: "draft_model", num_assistant_tokens_schedule: "constant" };
          const [texts, origins] = [[], new Set()];
          for (const use_mtp of ["auto", true, false]) {
            const engine = await Engine.load("/mtp/target", { device, use_mtp, max_context: 128 });
            const text = engine.generate(prompt, options);
            for await (const { tokens } of text) for (const { origin } of tokens) origins.add(`${use_mtp}: ${origin}`);
            texts.push((await text.result).token_ids);
            engine.close();
          }
          return { texts, origins: [...origins].sort(), error: await failed(Engine.load(TALES, { device, use_mtp: true })) };
        },
        [device, prompt],
      );
      for (const text of texts) equal(text, ids.slice(0, 40), device);
      equal(origins, ["auto: mtp", "auto: target", "false: target", "true: mtp", "true: target"], device);
      equal([error.code, error.detail.option], ["bad-option", "use_mtp"]);
    }
  },

  async "drafters of every kind draft on every device, and the text is that of the target alone"() {
    const golden = (name) => JSON.parse(readFileSync(new URL(name, DRAFTERS), "utf8")).cases;
    for (const [target, assistant_model, origin, { prompt_ids, greedy_ids }] of [
      ["TALES", "/drafters/dflash", "dflash", golden("dflash/dflash.json")[3]],
      ["TALES", "/drafters/dspark", "dspark", golden("dspark/dspark.json")[3]],
      ["TALES", "/drafters/pard", "draft_model", golden("dflash/dflash.json")[3]],
      ["/drafters/gemma4-assistant/target", "/drafters/gemma4-assistant/assistant", "gemma4_assistant", golden("gemma4-assistant/assistant.json")[0]],
    ])
      for (const device of ["cpu", "webgpu"]) {
        const { ids, origins, warnings } = await page.evaluate(
          async ([target, device, assistant_model, prompt]) => {
            const options = { max_new_tokens: 24, drafter: "draft_model", num_assistant_tokens_schedule: "constant" };
            const engine = await Engine.load(target === "TALES" ? TALES : target, { device, assistant_model, max_context: 128 });
            const text = engine.generate(prompt, options);
            const origins = new Set();
            for await (const { tokens } of text) for (const { origin } of tokens) origins.add(origin);
            const { token_ids, stats } = await text.result;
            engine.close();
            return { ids: token_ids, origins: [...origins].sort(), warnings: stats.warnings };
          },
          [target, device, assistant_model, prompt_ids],
        );
        equal(ids, greedy_ids.slice(0, 24), `${origin} on ${device}`);
        equal([origins, warnings], [[origin, "target"], []], device);
      }
  },

  async "whoever drafts the text is the same"() {
    const drafters = [
      { speculation: "off" },
      { drafter: "lookup", num_assistant_tokens_schedule: "constant" },
      { drafter: "draft_model", num_assistant_tokens_schedule: "constant" },
      {},
    ];
    const draws = [{}, { do_sample: true, temperature: 0.9, seed: 5 }];
    const texts = [0, 12].flatMap((at) => draws.flatMap((draw) => drafters.map((how) => [tales[at].prompt, { max_new_tokens: FEW, ...draw, ...how }])));
    const { results, device } = await write(page, texts, { device: "cpu", kv_dtype: "f32" });
    equal(device.backend, "Cpu", "where it ran");
    for (let at = 0; at < results.length; at += drafters.length) {
      for (const { ids } of results.slice(at, at + drafters.length)) equal(ids, results[at].ids, `text ${at}`);
    }
    [0, 12].forEach((at, i) => equal(results[i * draws.length * drafters.length].ids, tales[at].greedy_ids.slice(0, FEW), tales[at].prompt));
    check(results.reduce((sum, { accepted }) => sum + accepted, 0) > 20, "accepted draft tokens");
  },

  async "with integers, too, the text is the same whoever drafts"() {
    const drafters = [
      { speculation: "off" },
      { drafter: "lookup", num_assistant_tokens_schedule: "constant" },
      { drafter: "draft_model", num_assistant_tokens_schedule: "constant" },
    ];
    for (const [i, module] of MODULES.entries()) {
      for (const dtype of ["q8", "q4"]) {
        const texts = drafters.map((how) => [tales[12].prompt, { max_new_tokens: FEW, ...how }]);
        const { results, device } = await write(page, texts, { device: "cpu", dtype, ...module });
        equal(device.driver, ["RelaxedSimd", "Simd128"][i], "the module");
        equal(results[0].ids.length, FEW, "tokens");
        for (const { ids } of results) equal(ids, results[0].ids, dtype);
      }
    }
    const refused = await page.evaluate(() => failed(Engine.load(TALES, { device: "cpu", arithmetic: "int4" })));
    equal(refused.code, "bad-option", "an unknown arithmetic");
  },

  async "dot products in one instruction change no bit"() {
    // Where the processor has none both compute alike.
    const other = await launchWithFlags("--no-enable-avx-vnni");
    for (const dtype of ["q8", "q4"]) {
      const [found, wanted] = await Promise.all(
        [page, await open(other)].map((page) =>
          page.evaluate(
            async ([prompt, dtype]) => {
              const engine = await Engine.load(TALES, { device: "cpu", dtype });
              const { logprobs } = await engine.generate(prompt, { max_new_tokens: 12, logprobs: true, top_logprobs: 5 }).result;
              engine.close();
              return logprobs;
            },
            [tales[12].prompt, dtype],
          ),
        ),
      );
      equal(found.length, 12, "tokens");
      equal(found, wanted, dtype);
    }
    await other.close();
  },

  async "where the module for relaxed SIMD is not served the plain one takes its place"() {
    const other = await open();
    // The worker's own requests do not pass here in every browser.
    await rewrite(other, "**/worker.js", (text) => text.replace("relaxed_bg.wasm", "nowhere.wasm"));
    const { results, device } = await write(other, [[tales[12].prompt, { max_new_tokens: FEW }]], { device: "cpu" });
    await other.close();
    equal(device.driver, "Simd128", "the module");
    equal(results[0].ids, tales[12].greedy_ids.slice(0, FEW), "the text");
  },

  async "an abort is heard while the CPU computes, and the engine goes on"() {
    const outcome = await page.evaluate(
      async ([prompt, many]) => {
        const engine = await Engine.load(TALES, { device: "cpu", max_context: 512 });
        const control = new AbortController();
        const stream = engine.generate(prompt, { max_new_tokens: many, min_new_tokens: many, signal: control.signal, speculation: "off" });
        let count = 0;
        try {
          for await (const { tokens } of stream) {
            count += tokens.length;
            control.abort();
          }
        } catch (error) {
          globalThis.sawCode?.(error.code);
        }
        const code = await stream.result.then(
          () => null,
          ({ code }) => code,
        );
        const { token_ids: ids } = await engine.generate(prompt, { max_new_tokens: 4 }).result;
        engine.close();
        return { count, code, after: ids.length };
      },
      [tales[0].prompt, MANY],
    );
    equal([outcome.code, outcome.after], ["aborted", 4], "the code, and tokens afterwards");
    check(outcome.count < MANY, `${outcome.count} tokens before the abort was heard`);
  },

  async "weights that have no room in a page's memory are refused before they are fetched"() {
    const error = await page.evaluate(() => failed(Engine.load("/huge/model", { device: "cpu" })));
    equal(error?.code, "out-of-gpu-memory", JSON.stringify(error));
    check(error.message.startsWith("the weights: ") && error.detail.need > 2 ** 32, JSON.stringify(error));
    // The header comes in the first chunk.
    check(huge.served.get("model.safetensors") <= 8 << 20, `${huge.served.get("model.safetensors")} bytes of weights were fetched`);
  },

  async "a text that has no room in a page's memory is refused, and the engine goes on"() {
    const own = await open();
    await teach(own, { fill });
    const found = await own.evaluate(async (ids) => {
      const engine = await Engine.load(TALES, { device: "cpu" });
      const write = (times) => engine.generate(Array(times).fill(ids).flat(), { max_new_tokens: 4, speculation: "off" }).result;
      const before = await write(1);
      const [worker] = workers;
      const isFull = new Promise((full) => worker.addEventListener("message", ({ data }) => data === "full" && full()));
      worker.postMessage("fill");
      await isFull;
      const error = await failed(write(Math.floor(900 / ids.length)));
      const after = await write(1);
      const isSame = workers[0] === worker;
      engine.close();
      return { error, isSame, texts: [before, after].map(({ token_ids }) => token_ids) };
    }, tales[0].prompt_ids);
    await own.close();
    equal(found.error?.code, "out-of-gpu-memory", JSON.stringify(found.error));
    equal([found.isSame, found.texts[1]], [true, found.texts[0]], "the worker, and its text afterwards");
  },

  async "auto takes the CPU where the only adapter computes on one"() {
    const { results, device, warnings } = await write(page, [[tales[0].prompt, { max_new_tokens: 4 }]], { device: "auto" });
    equal(device.backend, "Cpu", "where it ran");
    check(device.name.startsWith("CPU with"), device.name);
    check(
      warnings.some((warning) => warning.includes("run on the CPU")),
      warnings.join(),
    );
    equal(results[0].ids, tales[0].greedy_ids.slice(0, 4), "the text");
  },

  async "a browser without WebGPU writes on the CPU, and says so"() {
    const other = await launchWithoutWebGpu();
    try {
      const plain = await open(other);
      const { results, device, warnings } = await write(plain, [[tales[12].prompt, { max_new_tokens: FEW }]], { device: "auto" });
      equal(device.backend, "Cpu", "where it ran");
      check(
        warnings.some((warning) => warning.includes("run on the CPU")),
        warnings.join(),
      );
      equal(results[0].ids, tales[12].greedy_ids.slice(0, FEW), "the text");
      const refused = await plain.evaluate(() => failed(Engine.load(TALES, { device: "webgpu" })));
      equal(refused?.code, "webgpu-unavailable", `a GPU that is asked for in ${browserName}`);
      const several = await plain.evaluate(() => failed(Engine.load(TALES, { device: "cpu", sp_degree: 2 })));
      check(["bad-option", "webgpu-unavailable"].includes(several?.code), `several targets: ${several?.code}`);
    } finally {
      await other.close();
    }
  },
};
