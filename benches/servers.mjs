// node benches/servers.mjs --url http://127.0.0.1:8000 --name tales [--delays 0,10,50,150] [--tokens 48] [--passes 3] [--model FOLDER]
// [--assistant-model FOLDER]: a target on vLLM over a connection with a round trip of each delay in ms (scripts/vllm.mjs starts a server).
// Compares the server's own streamed decoding with drafts of this machine that the server verifies: one request at a time, and
// distributed (SP 2 and 4). `foretoken simulate offline` predicts the times from latencies measured in the same run and the lengths of
// matches.
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { Agent, createServer, request } from "node:http";
import { cpus } from "node:os";
import { setTimeout as wait } from "node:timers/promises";
import { parseArgs } from "node:util";
import { fail } from "../scripts/system.mjs";

const { values } = parseArgs({
  options: {
    url: { type: "string" },
    name: { type: "string", default: "tales" },
    model: { type: "string", default: "models/tales/target" },
    "assistant-model": { type: "string", default: "models/tales/draft" },
    delays: { type: "string", default: "0,10,50,150" },
    tokens: { type: "string", default: "48" },
    passes: { type: "string", default: "3" },
  },
});
if (!values.url) fail("--url is missing: where vLLM serves the model, as http://127.0.0.1:8000 (node scripts/vllm.mjs starts it)");
const [delays, tokens, passes] = [values.delays.split(",").map(Number), Number(values.tokens), Number(values.passes)];
if (![...delays, tokens, passes].every(Number.isFinite)) fail("--delays, --tokens and --passes are numbers");
if (spawnSync("cargo", ["build", "--release"], { stdio: "inherit" }).status !== 0) fail("the native program was not built");
const program = "target/release/foretoken";

/** A proxy to the server that adds a round trip of `delay` ms. */
class Way {
  constructor(delay) {
    this.half = delay / 2;
    const agent = new Agent({ keepAlive: true });
    this.server = createServer(async (asked, answered) => {
      let left = false;
      const onward = request(values.url + asked.url, { method: asked.method, headers: asked.headers, agent });
      answered.on("close", async () => {
        left = !answered.writableFinished;
        await wait(this.half);
        if (left) onward.destroy();
      });
      onward.on("error", () => answered.destroy());
      onward.on("response", async (answer) => {
        // Pieces stay in order: each is sent when it is due and the previous one has been sent.
        let before = wait(this.half).then(() => left || answered.writeHead(answer.statusCode, answer.headers));
        const then = (send) => {
          const [earlier, due] = [before, wait(this.half)];
          before = Promise.all([earlier, due]).then(() => left || send());
        };
        answer.on("data", (piece) => then(() => answered.write(piece)));
        answer.on("end", () => then(() => answered.end()));
        answer.on("error", () => answered.destroy());
      });
      const body = [];
      try {
        for await (const piece of asked) body.push(piece);
      } catch {
        // The client aborted before its request was complete.
        return onward.destroy();
      }
      await wait(this.half);
      onward.end(Buffer.concat(body));
    });
  }

  async open() {
    await once(this.server.listen(0, "127.0.0.1"), "listening");
    this.url = `http://127.0.0.1:${this.server.address().port}`;
  }
}

/** Measures the server's own streamed decoding: seconds per token, and the tokens. */
async function streamed(url, prompt, count) {
  const began = performance.now();
  const body = { model: values.name, prompt, max_tokens: count, temperature: 0, stream: true, return_token_ids: true };
  const answer = await fetch(`${url}/v1/completions`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
  if (!answer.ok) fail(`${url}: ${answer.status} ${await answer.text()}`);
  const [ids, decoder, ends] = [[], new TextDecoder(), []];
  let rest = "";
  for await (const piece of answer.body) {
    rest += decoder.decode(piece, { stream: true });
    const lines = rest.split("\n");
    rest = lines.pop();
    for (const line of lines.filter((line) => line.startsWith("data: {"))) {
      const more = JSON.parse(line.slice(6)).choices?.[0]?.token_ids ?? [];
      ids.push(...more);
      if (more.length) ends.push(performance.now());
    }
  }
  return { perToken: (ends.at(-1) - began) / 1000 / ids.length, ids };
}

async function drafted(url, prompt, count, options) {
  const args = ["generate", "--json", "--device", "cpu", "--target-url", url, "--target-model", values.name, "--model", values.model];
  args.push("--max-new-tokens", String(count), ...options, prompt);
  const child = spawn(program, args, { stdio: ["ignore", "pipe", "pipe"] });
  let [out, errors] = ["", ""];
  child.stdout.on("data", (piece) => (out += piece));
  child.stderr.on("data", (piece) => (errors += piece));
  const [status] = await once(child, "close");
  if (status !== 0) fail(`${args.join(" ")}: ${errors}`);
  const { token_ids: ids, stats } = JSON.parse(out);
  return { perToken: stats.times.total / ids.length, ids, stats };
}

/** Returns the mean seconds of a text by `simulate offline`. */
function simulate({ target, drafter, matches, lookahead, sp, count }) {
  const options = { "target-latency": target, "drafter-latency": drafter, "match-lengths": matches, lookahead, "sp-degree": sp, tokens: count };
  const args = ["simulate", "offline", "--json", ...Object.entries(options).flatMap(([name, value]) => [`--${name}`, String(value)])];
  const { status, stdout, stderr } = spawnSync(program, args, { encoding: "utf8" });
  if (status !== 0) fail(stderr || stdout);
  return JSON.parse(stdout);
}

const fixed = ["--num-assistant-tokens-schedule", "constant"];
const lookup = ["--drafter", "lookup", "--prompt-lookup-num-tokens", "10"];
const model = ["--assistant-model", values["assistant-model"]];
const drafts = [...model, "--drafter", "draft_model"];
/** Modes of generation. Those with a prediction name their schedule in the simulator. */
const MODES = {
  streamed: null,
  lookup: { options: [...lookup, ...fixed], schedule: "si" },
  "lookup, SP 2": { options: [...lookup, ...fixed, "--sp-degree", "2"], schedule: "dsi" },
  model: { options: [...drafts, "--num-assistant-tokens", "5", ...fixed], schedule: "si" },
  "model, SP 2": { options: [...drafts, "--sp-degree", "2"], schedule: "dsi" },
  "model, SP 4": { options: [...drafts, "--sp-degree", "4"], schedule: "dsi" },
  adaptive: { options: [], schedule: null },
  "adaptive, model": { options: model, schedule: null },
};

/** Returns the lengths of matches. A match that fills a draft includes the target's token and the next match. */
function lengths({ per_step_accepted: accepted, per_step_drafted: drafted }) {
  const [matches, fills] = [[], (round) => drafted[round] > 0 && accepted[round] === drafted[round]];
  accepted.forEach((count, round) => {
    if (round > 0 && fills(round - 1)) matches.push(matches.pop() + 1 + count);
    else matches.push(count);
  });
  return matches;
}

const median = (values) => values.sort((a, b) => a - b)[Math.floor(values.length / 2)];
const mean = (values) => values.reduce((sum, value) => sum + value, 0) / Math.max(1, values.length);

function predicted({ stats, ids }, schedule, count) {
  if (!schedule) return null;
  const { distributed, times, num_spec_steps: rounds, per_step_drafted: drafts } = stats;
  const target = distributed?.target_latency ?? (times.total - times.draft) / rounds;
  const drafter = Math.max(distributed?.drafter_latency ?? times.draft / Math.max(1, mean(drafts) * rounds), target / 5000);
  // A lookup finds as many tokens as it may, or none.
  const lookahead = distributed?.lookahead ?? Math.max(1, ...drafts);
  const matches = distributed ? stats.per_step_accepted : lengths(stats);
  const found = simulate({ target, drafter, matches, lookahead, sp: distributed?.sp_degree ?? 1, count: Math.min(count, ids.length) });
  return found[schedule] / Math.min(count, ids.length);
}

const exercises = JSON.parse(readFileSync(new URL("../measure/src/prompts.json", import.meta.url), "utf8"));
const kinds = [...new Set(exercises.map(({ kind }) => kind))].map((kind) => exercises.find((exercise) => exercise.kind === kind));
console.log(`${values.url} (${(await (await fetch(`${values.url}/version`)).json()).version}), ${cpus()[0].model}, ${cpus().length} cores`);
console.log(`tokens per second, texts of at most ${tokens} tokens, median of ${passes}; of requests: sent, broken off; of the prompt's tokens: cached\n`);
console.log("way ms  task      mode            tokens/s  x streamed  predicted  off %  requests  broken off  cached %  the text");
for (const delay of delays) {
  const way = new Way(delay);
  await way.open();
  for (const { kind, prompt, max_new_tokens } of kinds) {
    const count = Math.min(tokens, max_new_tokens);
    const found = Object.fromEntries(Object.keys(MODES).map((mode) => [mode, []]));
    await streamed(way.url, prompt, 4);
    for (let pass = 0; pass < passes; pass += 1) {
      const order = Object.entries(MODES)
        .map((mode) => ({ mode, at: Math.random() }))
        .sort((a, b) => a.at - b.at);
      for (const {
        mode: [name, how],
      } of order) {
        found[name].push(how ? await drafted(way.url, prompt, count, how.options) : await streamed(way.url, prompt, count));
      }
    }
    const reference = found.streamed[0].ids;
    const plain = median(found.streamed.map(({ perToken }) => perToken));
    for (const [name, how] of Object.entries(MODES)) {
      const took = median(found[name].map(({ perToken }) => perToken));
      const one = found[name].toSorted((a, b) => a.perToken - b.perToken)[Math.floor(passes / 2)];
      const expected = how && predicted(one, how.schedule, count);
      const { traffic } = one.stats ?? {};
      const same = found[name].every(({ ids }) => ids.join() === reference.join());
      const cells = [
        String(delay).padStart(6),
        ` ${kind.padEnd(9)}`,
        name.padEnd(15),
        (1 / took).toFixed(1).padStart(8),
        (plain / took).toFixed(2).padStart(11),
        (expected ? (1 / expected).toFixed(1) : "").padStart(10),
        (expected ? ((100 * (took - expected)) / expected).toFixed(0) : "").padStart(6),
        String(traffic?.num_requests ?? "").padStart(9),
        String(traffic?.num_aborted ?? "").padStart(11),
        (traffic ? ((100 * traffic.num_cached_tokens) / Math.max(1, traffic.num_prompt_tokens)).toFixed(0) : "").padStart(9),
        same ? "  same" : "  OTHER",
      ];
      console.log(cells.join(" "));
    }
  }
  way.server.close();
  way.server.closeAllConnections();
}
