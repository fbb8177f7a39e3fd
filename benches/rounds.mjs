// `node benches/rounds.mjs [--device cpu] [--models tales,smollm2] [--tokens 48] [--passes 3] [--beside NAME=DIST,...]`: medians of
// the times of loading, of a prompt of about 380 tokens, and of rounds of one and of eight rows, in a page. On the CPU it compares the
// engine's two modules and two threads. `--beside` adds other builds of the package by their folders `dist`. BROWSER=firefox for Firefox.
import { existsSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { needBuild } from "../scripts/build.mjs";
import { ISOLATED } from "../scripts/serve.mjs";
import { fail } from "../scripts/system.mjs";
import { EIGHT, PLAIN } from "./peers/ways.mjs";

const { values } = parseArgs({
  options: {
    device: { type: "string", default: "cpu" },
    models: { type: "string", default: "tales" },
    tokens: { type: "string", default: "48" },
    passes: { type: "string", default: "3" },
    beside: { type: "string" },
  },
});
const MODELS = {
  tales: { path: "models/tales/target", prompts: "../measure/src/prompts.json" },
  smollm2: { path: "target/models/SmolLM2-135M-Instruct.Q4_1.gguf", prompts: "./peers/smollm2.json" },
};
const chosen = values.models.split(",");
if (!chosen.every((name) => Object.hasOwn(MODELS, name))) fail(`--models: ${values.models} is not allowed; allowed: ${Object.keys(MODELS)}`);
const builds = Object.fromEntries((values.beside?.split(",") ?? []).map((each) => each.split("=")));
for (const [name, dist] of Object.entries(builds))
  if (!dist || !existsSync(join(dist, "engine.js"))) fail(`--beside: ${name}=${dist} names no folder with an engine.js`);
await needBuild();

const { browser, browserName, faults, open, server } = await import("../tests/browser/harness.mjs");
const TYPES = { js: "text/javascript", wasm: "application/wasm" };
const serve = (root) => (_, response, path) => {
  const file = resolve(root, path.join("/"));
  const type = TYPES[file.split(".").at(-1)] ?? "application/octet-stream";
  response.writeHead(existsSync(file) ? 200 : 404, { ...ISOLATED, "Content-Type": type }).end(existsSync(file) ? readFileSync(file) : "");
};
faults.repository = serve(new URL("..", import.meta.url).pathname);
for (const [name, dist] of Object.entries(builds)) faults[`build-${name}`] = serve(dist);

const threads = { plain: { threads: 1, wasm: "/foretoken_bg.wasm" }, relaxed: { threads: 1 }, "2 threads": { threads: 2 } };
const own = values.device === "cpu" ? threads : { this: {} };
/** By name: the build's address and the load options. */
const ways = Object.entries(own).map(([name, options]) => [name, ["", { device: values.device, cache: false, ...options }]]);
for (const name of Object.keys(builds)) ways.push([name, [`/build-${name}`, { device: values.device, cache: false }]]);

const median = (values) => values.sort((a, b) => a - b)[values.length >> 1] ?? Number.NaN;
console.log(`${browserName} ${browser.version()}`);
for (const name of chosen) {
  const { path, prompts } = MODELS[name];
  if (!existsSync(new URL(`../${path}`, import.meta.url))) fail(`${path} is not there: node scripts/models.mjs fetches it`);
  const page = await open(browser, "/isolated/");
  const load = ([name, [build, options]]) =>
    page.evaluate(
      async ([name, build, options, model]) => {
        const { Engine } = await import(`${build}/engine.js`);
        const timed = async (options) => {
          const begun = performance.now();
          globalThis.engines = { ...globalThis.engines, [name]: await Engine.load(model, options) };
          return { load: performance.now() - begun, device: engines[name].device };
        };
        return timed(options).catch((error) => {
          // Older builds support only WebGPU and have no option for it.
          if (build && options.device === "webgpu" && error.message.includes("device is not allowed")) return timed({});
          throw error;
        });
      },
      [name, build, options, new URL(`/repository/${path}`, page.url()).href],
    );
  const write = ([engine, prompt, options]) =>
    page.evaluate(
      async ([engine, prompt, options]) => {
        const times = [performance.now()];
        const stream = engines[engine].generate(prompt, options);
        for await (const _ of stream) times.push(performance.now());
        const { per_step_drafted, num_prompt_tokens } = (await stream.result).stats;
        const gaps = times.slice(1).map((time, i) => time - times[i]);
        return { prompt: num_prompt_tokens / gaps[0], rounds: gaps.slice(1).map((took, i) => [1 + per_step_drafted[i + 1], took]) };
      },
      [engine, prompt, options],
    );
  const found = {};
  for (const way of ways) found[way[0]] = { ...(await load(way)), prompt: [], 1: [], 8: [] };
  const all = JSON.parse(readFileSync(new URL(prompts, import.meta.url), "utf8"));
  const exercises = all.filter(({ kind }) => ["retell", "rename"].includes(kind));
  for (let pass = 0; pass < Number(values.passes); pass += 1) {
    const long = `${pass} ${"the king had a little dog and the dog had a red ball that he liked very much so he played with it ".repeat(17)}`;
    for (const engine of Object.keys(found)) found[engine].prompt.push((await write([engine, long, { ...PLAIN, max_new_tokens: 1 }])).prompt);
    for (const { prompt, max_new_tokens } of exercises)
      for (const engine of Object.keys(found))
        for (const options of [PLAIN, EIGHT]) {
          const { rounds } = await write([engine, prompt, { ...options, max_new_tokens: Math.min(max_new_tokens, Number(values.tokens)) }]);
          for (const [rows, took] of rounds) found[engine][rows]?.push(took);
        }
  }
  for (const [way, { load, device, prompt, ...took }] of Object.entries(found)) {
    const [one, eight] = [1, 8].map((rows) => median(took[rows]));
    const cells = [`load ${(load / 1000).toFixed(2)} s`, `prompt ${(1000 * median(prompt)).toFixed(0)} tokens/s`, `T(1) ${one.toFixed(2)} ms`];
    cells.push(`T(8) ${eight.toFixed(2)} ms`, `T(8)/T(1) ${(eight / one).toFixed(2)}`);
    console.log(`${name.padEnd(8)} ${way.padEnd(10)} ${cells.join("  ")}  ${[device.name || device.backend, device.driver].filter(Boolean).join(", ")}`);
  }
  await page.close();
}
await browser.close();
server.close();
