// node benches/browser.mjs [--tokens 40] [--passes 3] [--kinds open,retell] [--modes lookup,adaptive] [--readback-delay 20] [--first]
// [--device cpu] [--dtype q8]: the tasks of `foretoken bench` in headless Chromium or, with BROWSER=firefox, in Firefox. Each text is
// generated in every mode, overlapped and not. The order of the modes is shuffled each time, so that disturbances of the machine affect
// all of them. The delay (ms) makes every readback come later, as on a remote device. With --first each text has a new engine.
import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { needBuild } from "../scripts/build.mjs";
import { fail } from "../scripts/system.mjs";
import { browser, browserName, open, server } from "../tests/browser/harness.mjs";
import { answerLate } from "./late.mjs";

const { values } = parseArgs({
  options: {
    tokens: { type: "string", default: "40" },
    passes: { type: "string", default: "3" },
    kinds: { type: "string", default: "open,retell,rename,continue" },
    modes: { type: "string", default: "draft model,lookup,chain,adaptive" },
    "readback-delay": { type: "string", default: "0" },
    first: { type: "boolean", default: false },
    device: { type: "string", default: "webgpu" },
    dtype: { type: "string", default: "auto" },
  },
});
const [tokens, passes, delay] = [values.tokens, values.passes, values["readback-delay"]].map(Number);
/** Only `adaptive` has the default schedule. The others have a fixed rule, so that no text depends on the one before. */
const by = (drafter) => ({ drafter, num_assistant_tokens_schedule: "heuristic_transient", prompt_lookup_num_tokens: 10 });
const ALL = {
  plain: { speculation: "off" },
  "draft model": { ...by("draft_model"), num_assistant_tokens_schedule: "constant" },
  lookup: by("lookup"),
  chain: by("chain"),
  adaptive: {},
};
const unknown = values.modes.split(",").filter((mode) => !Object.hasOwn(ALL, mode));
if (unknown.length > 0) fail(`--modes: ${unknown} is not allowed; allowed: ${Object.keys(ALL).slice(1)}`);
const MODES = Object.fromEntries(["plain", ...values.modes.split(",")].map((mode) => [mode, ALL[mode]]));
/** Modes with and without overlap, and plain decoding again to measure the noise. */
const RUNS = [
  ...Object.keys(MODES).flatMap((mode) => [
    [mode, true],
    [mode, false],
  ]),
  ["plain again", true],
];
MODES["plain again"] = MODES.plain;

const exercises = JSON.parse(readFileSync(new URL("../measure/src/prompts.json", import.meta.url), "utf8"));
const chosen = exercises.filter(({ kind }) => values.kinds.split(",").includes(kind));
if (chosen.length === 0) fail(`--kinds: ${values.kinds} is not allowed; allowed: ${[...new Set(exercises.map(({ kind }) => kind))]}`);
await needBuild();
const context = await browser.newContext();
await answerLate(context, delay);
const version = browser.version();
const page = await open(context);
const load = () =>
  page.evaluate(
    async (options) => {
      globalThis.engine?.close();
      globalThis.engine = await Engine.load(TALES, { assistant_model: DRAFT, lookup_memory: 0, ...options });
      return engine.device;
    },
    { device: values.device, dtype: values.dtype },
  );
const device = await load();

const write = (prompt, options) => page.evaluate(async ([prompt, options]) => (await engine.generate(prompt, options).result).stats, [prompt, options]);
const written = [];
for (let pass = 0; pass < passes; pass += 1) {
  for (const [text, { kind, prompt, max_new_tokens }] of chosen.entries()) {
    // Both models have read the prompt before the measurement begins.
    await write(prompt, { ...ALL["draft model"], max_new_tokens: 8 });
    const shuffled = RUNS.map((run) => ({ run, at: Math.random() })).sort((a, b) => a.at - b.at);
    for (const {
      run: [mode, overlap],
    } of shuffled) {
      if (values.first) {
        await load();
        await write(prompt, { speculation: "off", max_new_tokens: 1 });
      }
      const stats = await write(prompt, { ...MODES[mode], overlap, max_new_tokens: Math.min(max_new_tokens, tokens) });
      written.push({ text, kind, mode, overlap, stats });
    }
  }
}
await browser.close();
server.close();

const of = (wanted) => written.filter((one) => Object.entries(wanted).every(([key, value]) => one[key] === value));
const median = (values) => values.sort((a, b) => a - b)[Math.floor(values.length / 2)];
const sum = (values) => values.reduce((a, b) => a + b, 0);
/** Returns the speed relative to other runs of the same texts. Each text counts by the median of its passes. */
const speedup = (runs, others) => {
  const seconds = (all) => sum(chosen.map((_, text) => median(all.filter((one) => one.text === text).map(({ stats }) => stats.times.total)) ?? 0));
  return `${(seconds(others) / seconds(runs)).toFixed(2)}x`.padStart(8);
};
const later = (delay > 0 ? `, readbacks ${delay} ms later` : "") + (values.first ? ", each the first of an engine" : "");
console.log(
  `${device.name || device.driver || device.backend} in ${browserName} ${version}; at most ${tokens} tokens per text, each ${passes} times, prompts cached${later}\n`,
);
console.log("task       mode         tokens  rounds  per round  accepted  tokens/s  speed-up");
for (const kind of new Set(chosen.map(({ kind }) => kind))) {
  for (const mode of Object.keys(MODES)) {
    const own = of({ kind, mode, overlap: true });
    const names = ["num_emitted_tokens", "num_spec_steps", "num_draft_tokens", "num_accepted_draft_tokens"];
    const [emitted, rounds, drafted, accepted] = names.map((name) => sum(own.map(({ stats }) => stats[name])));
    const cells = [String(emitted).padStart(6), String(rounds).padStart(6), (emitted / rounds).toFixed(2).padStart(9)];
    cells.push((drafted ? `${Math.round((100 * accepted) / drafted)} %` : "").padStart(8));
    cells.push(
      median(own.map(({ stats }) => stats.times.tokens_per_second))
        .toFixed(1)
        .padStart(8),
    );
    console.log(`${kind.padEnd(10)} ${mode.padEnd(12)} ${cells.join("  ")}  ${speedup(own, of({ kind, mode: "plain", overlap: true }))}`);
  }
}

console.log("\noverlap      host ms  overlapped  hidden  speed-up");
for (const mode of Object.keys(MODES).filter((mode) => mode !== "plain again")) {
  const [alone, beside] = [false, true].map((overlap) => of({ mode, overlap }));
  const host = [alone, beside].map((all) => median(all.map(({ stats }) => (1000 * stats.times.host) / stats.num_spec_steps)));
  const hidden = median(beside.map(({ stats }) => stats.times.hidden / stats.times.host));
  const cells = [host[0].toFixed(3).padStart(7), host[1].toFixed(3).padStart(10), `${Math.round(100 * hidden)} %`.padStart(6)];
  console.log(`${mode.padEnd(12)} ${cells.join("  ")}  ${speedup(beside, alone)}`);
}
