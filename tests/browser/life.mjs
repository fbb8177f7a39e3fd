// Engines in numbers: models of other kinds, several at once, loaded and closed again and again; and what all that costs.
import { existsSync, readFileSync } from "node:fs";
import { gzipSync } from "node:zlib";
import { check, countWorkers, devtools, equal, faults, launch, open, until } from "./harness.mjs";
import { synthetic } from "./llama.mjs";

const GOLDEN = new URL("../golden/models/", import.meta.url);
const tales = JSON.parse(readFileSync(new URL("../golden/tales.json", import.meta.url), "utf8")).cases;

/** Reference models have no tokenizer: 512 words for their 512 ids. */
const words = JSON.stringify({
  version: "1.0",
  added_tokens: [],
  model: { type: "WordLevel", vocab: Object.fromEntries(Array.from({ length: 512 }, (_, id) => [`w${id}`, id])), unk_token: "w0" },
});
faults.golden = (_, response, [name, file]) => {
  if (file === "tokenizer.json") return response.writeHead(200, { "Content-Type": "application/json" }).end(words);
  const path = new URL(`${name}/${file}`, GOLDEN);
  if (!existsSync(path)) return response.writeHead(404).end();
  response.writeHead(200, { "Content-Type": "application/octet-stream" }).end(readFileSync(path));
};
/** 105 MB, so that one that is not freed is noticed. */
faults.heavy = synthetic({ hidden_size: 1024, vocab_size: 12_288, num_hidden_layers: 1, heads: 16, head_dim: 64, intermediate_size: 256 }).answer;

/** The int64 tensor of a reference file. */
function ids(name, tensor) {
  const bytes = readFileSync(new URL(`${name}/golden.safetensors`, GOLDEN));
  const start = 8 + Number(bytes.readBigUInt64LE());
  const [from, to] = JSON.parse(bytes.subarray(8, start))[tensor].data_offsets;
  return Array.from({ length: (to - from) / 8 }, (_, i) => Number(bytes.readBigInt64LE(start + from + 8 * i)));
}

let browser, page;
/** Twenty engines take minutes on a busy machine. */
export const long = true;
export const before = async () => {
  browser = await launch();
  page = await open(browser);
};
export const after = () => browser.close();

/** Bytes that the browser's GPU process holds. */
async function gpuMemory() {
  const client = await devtools(browser);
  const { processInfo } = await client.send("SystemInfo.getProcessInfo");
  await client.detach();
  const { id } = processInfo.find(({ type }) => type === "GPU");
  return 1024 * Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${id}/status`, "utf8"))[1]);
}

export const tests = {
  ...Object.fromEntries(
    [
      ["llama-gqa-tied", 512],
      ["qwen3", 7],
    ].map(([name, chunk]) => [
      `greedy ids of the reference model ${name} are those of transformers, its prompt in chunks of ${chunk}`,
      async () => {
        const wanted = ids(name, "greedy_ids").slice(0, 24);
        const { token_ids, stats } = await page.evaluate(
          async ([name, prompt, prefill_chunk]) => {
            const engine = await Engine.load(`/golden/${name}`, { max_context: 128, prefill_chunk, kv_dtype: "f32" });
            const generation = await engine.generate(prompt, { max_new_tokens: 24, prompt_lookup_num_tokens: 4 }).result;
            engine.close();
            return generation;
          },
          [name, ids(name, "prompt_ids"), chunk],
        );
        equal(token_ids, wanted.slice(0, token_ids.length), "ids");
        equal(stats.warnings, [], "the device computes a row the same way alone and in a batch");
      },
    ]),
  ),

  async "two engines write at the same time, each its own text"() {
    const { prompt, greedy_ids } = tales[0];
    const { together, alone } = await page.evaluate(async (prompt) => {
      const [one, two] = await Promise.all([Engine.load(TALES, { max_context: 256, kv_dtype: "f32" }), Engine.load(DRAFT, { max_context: 256 })]);
      const write = (engine) => engine.generate(prompt, { max_new_tokens: 12 }).result.then(({ token_ids }) => token_ids);
      const together = await Promise.all([write(one), write(two)]);
      one.close();
      const alone = await write(two);
      two.close();
      return { together, alone };
    }, prompt);
    equal(together[0], greedy_ids.slice(0, 12), "the target's ids");
    equal(together[1], alone, "the draft model's ids, when the other engine is gone");
    check(together[0].join() !== together[1].join(), "two models");
  },

  async "engines loaded and closed, at any point, leave no worker and no memory behind"() {
    /** Loads until this share of a phase is done or, without one, to the end, and then writes. Returns the bytes of buffers, or null. */
    const load = (abortAt) =>
      page.evaluate(async (abortAt) => {
        const control = new AbortController();
        const onProgress = ({ phase, loaded, total }) => phase === abortAt?.phase && loaded >= abortAt.share * total && control.abort();
        globalThis.engine = await Engine.load("/heavy/model", { max_context: 64, cache: false, signal: control.signal, onProgress }).catch((error) => {
          if (error.code !== "aborted") throw error;
        });
        const allocated = engine && (await engine.counters()).allocated;
        await engine?.generate([1, 2], { max_new_tokens: 2 }).result;
        return allocated ?? null;
      }, abortAt);
    const close = () => page.evaluate(() => engine?.close());
    const first = await load();
    const limit = (await gpuMemory()) - first / 2;
    await close();
    const freed = () => until("memory of closed engines is freed", async () => !(await countWorkers(page)) && (await gpuMemory()) < limit);
    await freed();
    // Most are given up while they load; the others write.
    const moments = ["download", "upload", "compile"].flatMap((phase) => [0, 0.3, 0.9].map((share) => ({ phase, share })));
    for (const moment of [...moments, undefined, undefined]) {
      const allocated = await load(moment);
      if (allocated !== null) equal(allocated, first, "bytes of buffers");
      await close();
    }
    await freed();
  },

  async "what it costs, measured"() {
    // By no clock: its rounds are counted below.
    const lookup = { drafter: "lookup", num_assistant_tokens_schedule: "constant", prompt_lookup_num_tokens: 10, max_matching_ngram_size: 3 };
    const { device, runs, loading } = await page.evaluate(
      async ([prompt, lookup]) => {
        const began = performance.now();
        const engine = await Engine.load(TALES, { assistant_model: DRAFT, max_context: 512 });
        const loading = (performance.now() - began) / 1000;
        const runs = {};
        for (const [name, options] of Object.entries({
          plain: { speculation: "off" },
          "plain, waited for": { speculation: "off", overlap: false },
          "draft model": { drafter: "draft_model" },
          lookup,
          adaptive: {},
        })) {
          runs[name] = (await engine.generate(prompt, { max_new_tokens: 32, ...options }).result).stats;
        }
        const { device } = engine;
        engine.close();
        return { device, runs, loading };
      },
      [tales[12].prompt, lookup],
    );
    const print = (line) => console.log(`      ${line}`);
    print(`${device.name || device.driver}, ${device.backend}; loaded in ${loading.toFixed(1)} s; a retelling, 32 tokens`);
    for (const [name, { times, num_spec_steps, num_emitted_tokens, wasm_memory }] of Object.entries(runs)) {
      const round = (phase) => `${phase} ${((1000 * times[phase]) / num_spec_steps).toFixed(2)}`;
      print(
        `${name.padEnd(12)} first token ${(1000 * times.first_token).toFixed(0)} ms, ${times.tokens_per_second.toFixed(1)} tokens/s, ` +
          `${num_spec_steps} rounds; ms per round: ${["draft", "verify", "emit"].map(round).join(", ")}; WASM memory ${(wasm_memory / 1e6).toFixed(1)} MB`,
      );
      equal(num_emitted_tokens, 32, name);
      check(wasm_memory < 64e6, `${wasm_memory} bytes of WASM memory`);
    }
    check(runs.lookup.num_spec_steps < runs.plain.num_spec_steps / 2, "lookup needs less than half of the rounds");
    const size = (file) => gzipSync(readFileSync(new URL(`../../www/${file}`, import.meta.url)), { level: 9 }).length;
    print(`foretoken.js ${size("foretoken.js")} bytes gzipped, foretoken_bg.wasm ${size("foretoken_bg.wasm")}`);
  },
};
