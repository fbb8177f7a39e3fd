// node benches/browser.mjs [TOKENS]: the tasks of `foretoken bench` in headless Chromium, each written plainly and with every
// drafter, one after the other, so that what disturbs the machine disturbs all of them.
import { readFileSync } from "node:fs";
import { needBuild } from "../scripts/build.mjs";
import { browser, open, server } from "../tests/browser/harness.mjs";

const MOST = Number(process.argv[2] ?? 48);
/** Alone `adaptive` is the default; the others keep a fixed rule, so that no text depends on the one before. */
const by = (drafter) => ({ drafter, num_assistant_tokens_schedule: "heuristic_transient", prompt_lookup_num_tokens: 10 });
const MODES = { plain: { speculation: "off" }, "draft model": by("draft_model"), lookup: by("lookup"), chain: by("chain"), adaptive: {} };

needBuild();
const exercises = JSON.parse(readFileSync(new URL("../src/cli/bench/prompts.json", import.meta.url), "utf8"));
const page = await open();
const device = await page.evaluate(async () => {
  globalThis.engine = await Engine.load(TALES, { assistant_model: DRAFT });
  return engine.device;
});
console.log(`${device.name || device.driver} in Chromium ${browser.version()}; at most ${MOST} tokens per text, prompts cached\n`);
console.log("task       mode         tokens  rounds  per round  accepted  speed-up");
const sums = new Map();
for (const { kind, prompt, max_new_tokens } of exercises) {
  for (const [mode, options] of Object.entries(MODES)) {
    const stats = await page.evaluate(async ([prompt, options, most]) => {
      await engine.generate(prompt, { ...options, max_new_tokens: 8 }).result;
      return (await engine.generate(prompt, { ...options, max_new_tokens: most }).result).stats;
    }, [prompt, options, Math.min(max_new_tokens, MOST)]);
    const key = JSON.stringify([kind, mode]);
    const sum = sums.get(key) ?? { tokens: 0, rounds: 0, drafted: 0, accepted: 0, seconds: 0 };
    sum.tokens += stats.num_emitted_tokens;
    sum.rounds += stats.num_spec_steps;
    sum.drafted += stats.num_draft_tokens;
    sum.accepted += stats.num_accepted_draft_tokens;
    sum.seconds += stats.times.total;
    sums.set(key, sum);
  }
}
for (const [key, { tokens, rounds, drafted, accepted, seconds }] of sums) {
  const [kind, mode] = JSON.parse(key);
  const plain = sums.get(JSON.stringify([kind, "plain"])).seconds;
  const cells = [String(tokens).padStart(6), String(rounds).padStart(6), (tokens / rounds).toFixed(2).padStart(9)];
  cells.push((drafted ? `${Math.round((100 * accepted) / drafted)} %` : "").padStart(8), `${(plain / seconds).toFixed(2)}x`.padStart(8));
  console.log(`${kind.padEnd(10)} ${mode.padEnd(12)} ${cells.join("  ")}`);
}

// In pairs, so that both see the same machine.
console.log("\noverlap      host ms  overlapped  hidden  speed-up, per round and as the median over pairs of texts");
const median = (/** @type {number[]} */ values) => values.sort((a, b) => a - b)[Math.floor(values.length / 2)];
for (const mode of ["plain", "draft model", "lookup"]) {
  const pairs = [];
  for (const { prompt, max_new_tokens } of exercises) {
    pairs.push(await page.evaluate(async ([prompt, options]) => {
      const stats = [];
      for (const overlap of [false, true]) stats.push((await engine.generate(prompt, { ...options, overlap }).result).stats);
      return stats;
    }, [prompt, { ...MODES[mode], max_new_tokens: Math.min(max_new_tokens, MOST) }]));
  }
  const host = (/** @type {any} */ { times, num_spec_steps }) => (1000 * times.host) / num_spec_steps;
  const cells = [0, 1].map((at) => median(pairs.map((pair) => host(pair[at]))).toFixed(3));
  const hidden = median(pairs.map(([, { times }]) => times.hidden / times.host));
  const speedup = median(pairs.map(([alone, beside]) => beside.times.tokens_per_second / alone.times.tokens_per_second));
  console.log(`${mode.padEnd(12)} ${cells[0].padStart(7)}  ${cells[1].padStart(10)}  ${String(Math.round(100 * hidden)).padStart(4)} %  ${speedup.toFixed(3).padStart(7)}x`);
}
await browser.close();
server.close();
