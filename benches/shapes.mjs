// node benches/shapes.mjs [--device cpu] [--shapes lfm2-350m,...] [--dtypes f16,q8,q4] [--time-limit 60]: the results of `foretoken bench
// --quick --shape` for real sizes in each type, as a Markdown table. T(n) is relative to T(1), after 32 positions. A checkpoint is the
// recurrent state of one position.
import { spawnSync } from "node:child_process";
import { parseArgs } from "node:util";
import { fail } from "../scripts/system.mjs";

const built = spawnSync("cargo", ["build", "--release", "--package", "foretoken-cli"], { stdio: "inherit" });
if (built.status !== 0) fail("the native program was not built");

const { values } = parseArgs({
  options: {
    device: { type: "string", default: "auto" },
    shapes: { type: "string", default: "lfm2-350m,lfm2-1.2b,lfm2-8b-a1b,gemma-4-e2b,qwen3.5-0.8b,qwen3.5-2b,ministral-3-3b" },
    dtypes: { type: "string", default: "f16,q8,q4" },
    "time-limit": { type: "string", default: "60" },
  },
});

const ROWS = [2, 4, 8, 16];
const HEAD = ["shape", "type", "weights", "KV", "checkpoint", "scratch", "dispatches per layer", "tokens/s", "T(1), ms"];
const line = (/** @type {string[]} */ cells) => console.log(`| ${cells.join(" | ")} |`);
const mb = (/** @type {number} */ bytes) => (bytes === 0 ? "0" : `${(bytes / 1e6).toFixed(bytes < 1e6 ? 2 : 0)} MB`);

let begun = false;
for (const shape of values.shapes.split(",")) {
  for (const dtype of values.dtypes.split(",")) {
    const bench = ["bench", "--quick", "--json", "--shape", shape, "--dtype", dtype, "--device", values.device, "--time-limit", values["time-limit"]];
    const { status, signal, stdout, stderr } = spawnSync("target/release/foretoken", bench, { encoding: "utf8" });
    const report = stdout.startsWith("{") ? JSON.parse(stdout) : {};
    // The system ends a program that uses more memory than there is.
    if (report.error?.code === "out-of-gpu-memory" || signal === "SIGKILL") {
      console.error(`${shape} ${dtype}: ${report.error?.message ?? "it does not fit into memory"}`);
      continue;
    }
    if (status !== 0) fail(`${bench.join(" ")}: ${report.error?.message ?? stderr}`);
    const { device, decode, prefill, memory, cut } = report;
    if (!begun) {
      console.log(`${[device.name, device.driver].filter(Boolean).join(", ")}; * where the time was up\n`);
      const head = [...HEAD, ...ROWS.map((rows) => `T(${rows})`), "prefill, tokens/s"];
      line(head);
      line(head.map(() => "---"));
      begun = true;
    }
    const [shortest] = report.verify;
    // Empty if the time was up before.
    const one = shortest?.ms[0].toFixed(2) ?? "";
    const ratios = ROWS.map((rows) => shortest?.ratio[shortest.rows.indexOf(rows)].toFixed(2) ?? "");
    const sizes = [memory.weights, memory.kv, memory.checkpoint, memory.scratch].map(mb);
    const speeds = [decode, prefill].map((part) => part.tokens_per_second.toFixed(1));
    line([shape, dtype + (cut.length ? "*" : ""), ...sizes, report.dispatches_per_layer, speeds[0], one, ...ratios, speeds[1]]);
  }
}
