// `node benches/papers.mjs`: prints the numbers of docs/papers.md that no other command prints: shares of the cells of figures 2 and 7, and
// accepted tokens by temperature. They are counts, equal on every device.
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { foretoken, readPrompts } from "./program.mjs";

const out = join(mkdtempSync(join(tmpdir(), "foretoken-papers-")), "heatmap.svg");
for (const [figure, lookahead] of [
  [2, undefined],
  [7, 5],
]) {
  const { cells } = foretoken(["simulate", "heatmap"], { columns: 100, rows: 101, repeats: 100, lookahead, out });
  // Sums of equal latencies differ by rounding.
  const isMore = (a, b) => a > b * (1 + 1e-9);
  const slower = cells.filter(({ plain, si }) => isMore(si, plain)).length / cells.length;
  const most = Math.max(...cells.map(({ plain, si }) => si / plain));
  const lost = cells.filter(({ plain, si, dsi }) => isMore(dsi, Math.min(plain, si))).length;
  const gain = Math.max(...cells.map(({ plain, si, dsi }) => Math.min(plain, si) / dsi));
  const shares = `SI is slower than plain decoding in ${(100 * slower).toFixed(1)} % of the cells, up to ${most.toFixed(2)} times`;
  console.log(`figure ${figure}: ${shares}; DSI is slower than the better of both in ${lost}, and up to ${gain.toFixed(2)} times as fast`);
}

console.log("\ntemperature  rejection  coupled: tokens per round, draft model, 5 ahead");
for (const temperature of [0.1, 0.5, 1, 1.5]) {
  const found = ["rejection", "coupled"].map((acceptance) => {
    let [tokens, rounds] = [0, 0];
    for (const { prompt, max_new_tokens } of readPrompts("measure/src/prompts.json")) {
      const draft = { drafter: "draft_model", "num-assistant-tokens-schedule": "constant", "num-assistant-tokens": 5 };
      const options = { device: "cpu", "max-new-tokens": max_new_tokens, ...draft, temperature, acceptance };
      for (const seed of [1, 2, 3]) {
        const { stats } = foretoken(["generate", prompt], { ...options, seed });
        tokens += stats.num_emitted_tokens;
        rounds += stats.num_spec_steps;
      }
    }
    return (tokens / rounds).toFixed(2);
  });
  console.log(`${String(temperature).padEnd(13)}${found[0].padEnd(11)}${found[1]}`);
}
