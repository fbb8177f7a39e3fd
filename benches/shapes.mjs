// node benches/shapes.mjs [--shapes smollm2-135m,...] [--dtypes f16,q8,q4] [--time-limit 60]: the results of `foretoken bench --quick
// --shape` for real sizes in each type, one line each. T(n) is relative to T(1), after 32 positions. `draft` is the cost of a draft step:
// one row of the smallest SmolLM2 in that type, relative to one row of the model.
import { spawnSync } from "node:child_process";
import { parseArgs } from "node:util";
import { fail } from "../scripts/system.mjs";

const DRAFT = "smollm2-135m";
const { values } = parseArgs({
  options: {
    shapes: { type: "string", default: `${DRAFT},gemma-3-270m,smollm2-360m,lfm2-350m,qwen3-0.6b,llama-3.2-1b,lfm2-1.2b,smollm2-1.7b` },
    dtypes: { type: "string", default: "f16,q8,q4" },
    "time-limit": { type: "string", default: "60" },
  },
});

const line = (...[name, ...cells]) => console.log([name.padEnd(14), ...cells.map((cell) => String(cell).padStart(8))].join(" "));
const mb = (bytes) => `${(bytes / 1e6).toFixed(0)} MB`;

/** Milliseconds of one row of the draft model, by type. */
const drafts = new Map();
let begun = false;
for (const shape of values.shapes.split(",")) {
  for (const dtype of values.dtypes.split(",")) {
    const bench = ["bench", "--quick", "--json", "--shape", shape, "--dtype", dtype, "--time-limit", values["time-limit"]];
    const { status, stdout, stderr } = spawnSync("cargo", ["run", "--release", "--quiet", "--", ...bench], { encoding: "utf8" });
    if (status !== 0) fail(`${bench.join(" ")}: ${stderr}`);
    const {
      device,
      decode,
      verify: [shortest],
      memory,
      cut,
    } = JSON.parse(stdout);
    // Empty if the time was up before.
    const {
      ms: [one],
      ratio,
    } = shortest ?? { ms: [NaN], ratio: [] };
    if (!begun) {
      console.log(`${device.name}, ${device.driver}; * where the time was up`);
      line("shape", "type", "weights", "memory", "tokens/s", "T(2)", "T(4)", "T(8)", "T(16)", "draft");
      begun = true;
    }
    if (shape === DRAFT) drafts.set(dtype, one);
    const found = [1, 2, 3, 4].map((i) => ratio[i]?.toFixed(2) ?? "");
    const step = (drafts.get(dtype) ?? NaN) / one;
    const shown = `${Number.isNaN(step) ? "" : step.toFixed(2)}${cut.length ? "*" : ""}`;
    line(shape, dtype, mb(memory.weights), mb(memory.allocated), decode.tokens_per_second.toFixed(2), ...found, shown);
  }
}
