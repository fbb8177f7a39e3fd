// foretoken and llama.cpp as programs. foretoken starts anew for each text, so it learns nothing from earlier ones. Each way of llama.cpp
// is a server.
import { spawn } from "node:child_process";
import { createServer } from "node:net";
import { setTimeout as wait } from "node:timers/promises";
import { fail } from "../../scripts/system.mjs";
import { foretoken } from "../program.mjs";
import { WAYS } from "./ways.mjs";

const LLAMA = process.env.LLAMA_SERVER ?? "llama-server";
/** Seconds in which a server must have loaded its model. */
const LOADING = 120;

/** The ways of llama.cpp: its n-gram drafter with its own defaults and with short drafts, and a draft model. */
function llamaWays(assistant) {
  const ngram = (size, most) => ["--spec-type", "ngram-simple", "--spec-ngram-simple-size-n", `${size}`, "--spec-ngram-simple-size-m", `${most}`];
  const ways = { plain: [], "n-grams": ["--spec-type", "ngram-simple"], "n-grams, 3 tokens": ngram(3, 3), "n-grams, 10 tokens": ngram(3, 10) };
  if (assistant) ways["draft model, 3 tokens"] = ["--model-draft", assistant, "--spec-type", "draft-simple", "--spec-draft-n-max", "3"];
  return ways;
}

/** Starts a server of llama.cpp. @returns `{ version, write, close }` */
async function serveLlama(gguf, threads, flags) {
  const probe = createServer().listen(0, "127.0.0.1");
  await new Promise((resolve) => probe.once("listening", resolve));
  const { port } = probe.address();
  await new Promise((resolve) => probe.close(resolve));
  const common = ["--model", gguf, "--threads", `${threads}`, "--ctx-size", "4096", "--parallel", "1", "--host", "127.0.0.1", "--port", `${port}`];
  const child = spawn(LLAMA, [...common, ...flags], { stdio: ["ignore", "ignore", "pipe"] });
  let log = "";
  child.stderr.on("data", (data) => {
    log = (log + data).slice(-4000);
  });
  process.once("exit", () => child.kill());
  child.once("error", () => fail(`${LLAMA} could not be started: LLAMA_SERVER names llama.cpp's llama-server`));
  const url = `http://127.0.0.1:${port}`;
  const isReady = () =>
    fetch(`${url}/health`)
      .then(({ ok }) => ok)
      .catch(() => false);
  for (let waited = 0; !(await isReady()); waited += 1) {
    if (child.exitCode !== null || waited === LOADING) fail(`${LLAMA} did not load ${gguf}: ${log}`);
    await wait(1000);
  }
  const { build_info: version } = await (await fetch(`${url}/props`)).json();
  return {
    version,
    async write({ prompt, max_new_tokens }) {
      const body = JSON.stringify({ prompt, n_predict: max_new_tokens, temperature: 0, cache_prompt: false });
      // The server closes idle connections after some seconds, perhaps just when the next request begins.
      const answer = await fetch(`${url}/completion`, { method: "POST", body, headers: { connection: "close" } });
      const { content, timings } = await answer.json();
      return { text: content, tokens: timings.predicted_n - 1, seconds: timings.predicted_ms / 1000 };
    },
    close: () => child.kill(),
  };
}

export async function open({ gguf, assistant, device, threads: counts }) {
  const [about, writers, servers] = [new Set(), [], []];
  for (const threads of counts) {
    const on = `, ${threads} ${threads === 1 ? "thread" : "threads"}`;
    const add = (name, options) =>
      writers.push({
        name: `foretoken ${name}${on}`,
        isPeer: false,
        async write({ prompt, max_new_tokens }) {
          const limits = { model: gguf, device, threads, "max-new-tokens": max_new_tokens };
          const { text, stats } = foretoken(["generate", prompt], { ...limits, ...options });
          const { total, first_token, tokens_per_second } = stats.times;
          const seconds = total - first_token;
          return { text, tokens: Math.round(tokens_per_second * seconds), seconds };
        },
      });
    for (const [name, options] of Object.entries(WAYS)) {
      add(name, Object.fromEntries(Object.entries(options).map(([option, value]) => [option.replaceAll("_", "-"), value])));
    }
    if (assistant) {
      const fixed = { drafter: "draft_model", "num-assistant-tokens": 3, "num-assistant-tokens-schedule": "constant" };
      add("draft model, 3 tokens", { "assistant-model": assistant, ...fixed });
      add("draft model, adaptive", { "assistant-model": assistant });
    }
    for (const [name, flags] of Object.entries(llamaWays(assistant))) {
      const server = await serveLlama(gguf, threads, flags);
      about.add(`llama.cpp ${server.version}`);
      servers.push(server);
      writers.push({ name: `llama.cpp ${name}${on}`, isPeer: true, write: server.write });
    }
  }
  const costs = () =>
    counts.map((threads) => {
      const {
        verify: [{ rows, ratio }],
        device: { name, driver },
      } = foretoken(["bench", "--quick"], { model: gguf, device, threads });
      return [`${name}, ${driver}`, ratio[rows.indexOf(8)]];
    });
  return { about: [...about], writers, costs, close: () => servers.forEach((server) => server.close()) };
}

export const end = () => {};
