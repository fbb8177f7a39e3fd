// npm run recording: records a race of the demo page in headless Chromium as www/demo/recording.json, which visitors see while their own
// device gets ready. Other work of the machine slows it, so run it on an idle one. Arguments: flags of Chromium.
import { writeFileSync } from "node:fs";
import { cpus } from "node:os";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";
import { PRESETS } from "../www/demo/presets.js";
import { needBuild } from "./build.mjs";
import { answer, listen } from "./serve.mjs";
import { needChromium } from "./system.mjs";

await needBuild();
const { server, url } = await listen(answer, 0);
const browser = await chromium.launch({ executablePath: needChromium(), args: ["--headless", "--no-sandbox", ...process.argv.slice(2)] });
const page = await browser.newPage();
const { title, kind, prompt } = PRESETS.rename;
const query = new URLSearchParams({ kind, prompt, max_new_tokens: "96", drafter: "lookup", num_assistant_tokens_schedule: "constant" });
await page.goto(`${url}/demo/#race?${query}`);
await page.waitForFunction(() => document.getElementById("outcome").dataset.state === "done", null, { timeout: 300_000 });
const race = await page.evaluate(async () => {
  const { raceShown } = await import("/demo/stage.js");
  return raceShown();
});
const { outcome, plain, speculative, rejected } = race;
const generation = ({ token_ids, stats }) => {
  const { num_spec_steps, num_draft_tokens, seed, speculating, per_step_drafted, per_step_accepted, times } = stats;
  return {
    token_ids,
    stats: { num_spec_steps, num_draft_tokens, seed, speculating, per_step_drafted, per_step_accepted, times: { tokens_per_second: times.tokens_per_second } },
  };
};
const lane = (recording) => ({
  rounds: recording.rounds.map(({ seconds, tokens }) => ({ seconds, tokens: tokens.map(({ text, origin }) => ({ text, origin })) })),
  generation: generation(recording.generation),
});
const [{ model }] = cpus();
const { device, options } = outcome;
const recorded = {
  outcome: { recorded: title, device: `${device} (${model})`, prompt, kind, options },
  plain: lane(plain),
  speculative: lane(speculative),
  rejected,
};
writeFileSync(fileURLToPath(new URL("../www/demo/recording.json", import.meta.url)), `${JSON.stringify(recorded)}\n`);
await browser.close();
server.close();
