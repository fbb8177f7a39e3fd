// foretoken and llama.cpp as programs, on one thread and on all cores.
import { spawn, spawnSync } from "node:child_process";
import { cpus } from "node:os";
import { createInterface } from "node:readline";
import { fail, run } from "../../scripts/system.mjs";
import { WAYS } from "./ways.mjs";

const FORETOKEN = "target/release/foretoken";

export async function open({ root, gguf, device }) {
  run("cargo", ["build", "--release", "--quiet"], { cwd: root });
  const foretoken = (threads, ...args) => {
    const env = { ...process.env, RAYON_NUM_THREADS: threads };
    const { status, stdout, stderr } = spawnSync(FORETOKEN, [...args, "--json", "--model", gguf, "--device", device], { cwd: root, encoding: "utf8", env });
    if (status !== 0) fail(`foretoken ${args[0]}: ${stderr}${stdout}`);
    return JSON.parse(stdout);
  };
  const about = new Set();
  const [writers, llamas] = [[], []];
  const counts = [...new Set([1, cpus().length])];
  for (const threads of counts) {
    const on = `, ${threads} ${threads === 1 ? "thread" : "threads"}`;
    for (const [way, options] of Object.entries(WAYS)) {
      const flags = Object.entries(options).flatMap(([name, value]) => [`--${name.replaceAll("_", "-")}`, String(value)]);
      writers.push({
        name: `foretoken ${way}${on}`,
        isPeer: false,
        async write({ prompt, max_new_tokens }) {
          const { text, stats } = foretoken(threads, "generate", prompt, "--max-new-tokens", max_new_tokens, ...flags);
          const { total, first_token, tokens_per_second } = stats.times;
          const seconds = total - first_token;
          return { text, tokens: Math.round(tokens_per_second * seconds), seconds };
        },
      });
    }
    const llama = spawn(process.env.PYTHON ?? "python3", ["scripts/llama.py", gguf, threads], { cwd: root, stdio: ["pipe", "pipe", "inherit"] });
    const lines = createInterface({ input: llama.stdout })[Symbol.asyncIterator]();
    const next = async () => JSON.parse((await lines.next()).value ?? fail("llama.cpp ended; PYTHON names a Python with llama-cpp-python"));
    about.add(`llama-cpp-python ${(await next()).version}`);
    llamas.push(llama);
    writers.push({
      name: `llama.cpp${on}`,
      isPeer: true,
      async write({ prompt, max_new_tokens }) {
        llama.stdin.write(`${JSON.stringify({ prompt, max_tokens: max_new_tokens })}\n`);
        const { text, ids, seconds } = await next();
        return { text, tokens: ids.length - 1, seconds };
      },
    });
  }
  const costs = () =>
    counts.map((threads) => {
      const {
        verify: [{ rows, ratio }],
        device,
      } = foretoken(threads, "bench", "--quick");
      return [`${device.name}, ${device.driver}`, ratio[rows.indexOf(8)]];
    });
  return { about: [...about], writers, costs, close: () => llamas.forEach((llama) => llama.stdin.end()) };
}

export const end = () => {};
