// foretoken, wllama and transformers.js in one page, each on one thread.
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { needBuild } from "../../scripts/build.mjs";
import { run } from "../../scripts/system.mjs";
import { EIGHT, PLAIN, WAYS } from "./ways.mjs";

const WLLAMA = "@wllama/wllama";
const TRANSFORMERS = "@huggingface/transformers";
const VERSIONS = { [WLLAMA]: "3.13.0", [TRANSFORMERS]: "4.3.1" };
const IMPORTS = {
  [WLLAMA]: "@wllama/wllama/esm/index.js",
  [TRANSFORMERS]: "@huggingface/transformers/dist/transformers.web.js",
  "onnxruntime-common": "onnxruntime-common/dist/esm/index.js",
  "onnxruntime-web/webgpu": "onnxruntime-web/dist/ort.webgpu.bundle.min.mjs",
};
const TYPES = { js: "text/javascript", mjs: "text/javascript", json: "application/json", wasm: "application/wasm" };

/** Serves the files in target to a page without a policy. */
function serve(root, response, path) {
  if (path.length === 0) {
    const imports = Object.fromEntries(Object.entries(IMPORTS).map(([name, file]) => [name, `/peers/peers/node_modules/${file}`]));
    response.writeHead(200, { "Content-Type": "text/html" }).end(`<!doctype html><script type="importmap">${JSON.stringify({ imports })}</script>`);
    return;
  }
  const file = join(root, "target", ...path);
  if (!existsSync(file)) return response.writeHead(404).end();
  response.writeHead(200, { "Content-Type": TYPES[file.split(".").at(-1)] ?? "application/octet-stream" }).end(readFileSync(file));
}

let harness;
export async function end() {
  await harness.browser.close();
  harness.server.close();
}

export async function open({ root, gguf, onnx, dtype, device }) {
  await needBuild();
  const installed = join(root, "target", "peers");
  const there = (name) => JSON.parse(readFileSync(join(installed, "node_modules", name, "package.json"), "utf8")).version;
  if (!existsSync(join(installed, "node_modules", WLLAMA))) {
    const packages = Object.entries(VERSIONS).map(([name, version]) => `${name}@${version}`);
    run("npm", ["install", "--prefix", installed, "--ignore-scripts", "--no-audit", "--no-fund", ...packages]);
  }
  harness = await import("../../tests/browser/harness.mjs");
  const { browser, faults, url } = harness;
  faults.peers = (_, response, path) => serve(root, response, path.filter(Boolean));
  const page = await browser.newPage();
  page.setDefaultTimeout(600_000);
  await page.goto(`${url}/peers/`);
  const file = gguf.replace(/^target/, "/peers");
  const info = await page.evaluate(foretoken, [file, device]);
  const writers = Object.entries(WAYS).map(([way, options]) => ({
    name: `foretoken ${way}`,
    isPeer: false,
    write: ({ prompt, max_new_tokens }) => page.evaluate((given) => write.foretoken(...given), [prompt, { ...options, max_new_tokens }]),
  }));
  const peer = (name, key) =>
    writers.push({
      name: `${name} ${there(name)}`,
      isPeer: true,
      write: ({ prompt, max_new_tokens }) => page.evaluate(([key, ...given]) => write[key](...given), [key, prompt, max_new_tokens]),
    });
  const llama = await page.evaluate(wllama, [file, WLLAMA]);
  peer(WLLAMA, "wllama");
  if (onnx && existsSync(join(root, onnx))) {
    await page.evaluate(transformers, [onnx.replace(/^target\//, ""), dtype, TRANSFORMERS]);
    peer(TRANSFORMERS, "transformers");
  } else {
    console.log(`${onnx ?? "An ONNX folder"} is not there: without ${TRANSFORMERS}`);
  }
  const costs = async (exercises) => {
    const seconds = { 0: [], 7: [] };
    for (const { prompt, max_new_tokens } of exercises) {
      for (const options of [PLAIN, EIGHT]) {
        const { rounds } = await page.evaluate((given) => write.foretoken(...given), [prompt, { ...options, max_new_tokens }]);
        for (const round of rounds) seconds[round.drafted]?.push(round.seconds);
      }
    }
    const [one, eight] = [seconds[0], seconds[7]].map((all) => all.sort((a, b) => a - b)[all.length >> 1]);
    return [["in the page", eight / one]];
  };
  return { about: [`Chromium ${browser.version()}`, `foretoken on ${info}`, `wllama of llama.cpp ${llama}`], writers, costs, close: () => page.close() };
}

/** Runs in the page: loads foretoken and defines `write.foretoken`. */
async function foretoken([model, device]) {
  const { Engine } = await import("/engine.js");
  const engine = await Engine.load(model, { device, cache: false, lookup_memory: 0 });
  globalThis.write = {
    async foretoken(prompt, options) {
      const [times, counts] = [[], []];
      const stream = engine.generate(prompt, options);
      for await (const { tokens } of stream) {
        times.push(performance.now());
        counts.push(tokens.length);
      }
      const { text, stats } = await stream.result;
      const rounds = times.slice(1).map((time, i) => ({ seconds: (time - times[i]) / 1000, drafted: stats.per_step_drafted[i + 1] }));
      return { text, rounds, tokens: counts.slice(1).reduce((a, b) => a + b, 0), seconds: (times.at(-1) - times[0]) / 1000 };
    },
  };
  return `${engine.device.name}, ${engine.device.driver}`;
}

/** Runs in the page, too. */
async function wllama([model, name]) {
  const { Wllama, LoggerWithoutDebug } = await import(name);
  const engine = new Wllama(
    { default: "/peers/peers/node_modules/@wllama/wllama/esm/wasm/wllama.wasm" },
    { logger: LoggerWithoutDebug, suppressNativeLog: true },
  );
  await engine.loadModel([await (await fetch(model)).blob()], { n_ctx: 4096, n_threads: 1, n_gpu_layers: 0 });
  globalThis.write.wllama = async (prompt, max_tokens) => {
    const times = [];
    let [text, tokens] = ["", 0];
    for await (const {
      choices: [choice],
      timings,
    } of await engine.createCompletion({ prompt, max_tokens, stream: true, temperature: 0, temp: 0 })) {
      text += choice?.text ?? "";
      tokens = timings?.predicted_n ?? tokens;
      times.push(performance.now());
    }
    return { text, tokens: (tokens || times.length) - 1, seconds: (times.at(-1) - times[0]) / 1000 };
  };
  return Wllama.getLibllamaVersion();
}

/** Runs in the page, too. */
async function transformers([model, dtype, name]) {
  const { AutoModelForCausalLM, AutoTokenizer, env } = await import(name);
  Object.assign(env, { allowRemoteModels: false, allowLocalModels: true, localModelPath: "/peers/", useBrowserCache: false });
  env.backends.onnx.wasm.numThreads = 1;
  env.backends.onnx.wasm.wasmPaths = "/peers/peers/node_modules/onnxruntime-web/dist/";
  const [engine, tokenizer] = [await AutoModelForCausalLM.from_pretrained(model, { dtype, device: "wasm" }), await AutoTokenizer.from_pretrained(model)];
  globalThis.write.transformers = async (prompt, max_new_tokens) => {
    const times = [];
    const streamer = { put: () => times.push(performance.now()), end() {} };
    const inputs = tokenizer(prompt);
    const output = await engine.generate({ ...inputs, max_new_tokens, do_sample: false, streamer });
    const ids = output.tolist()[0].slice(inputs.input_ids.dims[1]);
    // The first call reports the prompt.
    const [first, last] = [times[1], times.at(-1)];
    return { text: tokenizer.decode(ids, { skip_special_tokens: true }), tokens: times.length - 2, seconds: (last - first) / 1000 };
  };
}
