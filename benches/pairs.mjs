// `node benches/pairs.mjs [--model M --assistant-model A] [--prompts FILE] [--texts 8] [--tokens 50] [--degrees 0,1,2] [--threads 1]`: measures a
// pair on the CPU with `foretoken measure`, predicts the time per token with `foretoken simulate offline`, and compares it with texts that are
// generated. Degree 0 is plain decoding; 1 is one target and a draft model that compute at the same time. Each of them should have --threads
// cores of its own. The second prediction is from the latencies in these texts: verification of several rows, on a machine that is shared.
import { availableParallelism } from "node:os";
import { parseArgs } from "node:util";
import { fail } from "../scripts/system.mjs";
import { foretoken, mean, readPrompts } from "./program.mjs";

const { values } = parseArgs({
  options: {
    model: { type: "string" },
    "assistant-model": { type: "string" },
    prompts: { type: "string", default: "measure/src/prompts.json" },
    texts: { type: "string", default: "8" },
    tokens: { type: "string", default: "50" },
    degrees: { type: "string", default: "0,1,2" },
    threads: { type: "string", default: "1" },
  },
});
const [texts, tokens, threads] = [values.texts, values.tokens, values.threads].map(Number);
const degrees = values.degrees.split(",").map(Number);
if (![texts, tokens, threads, ...degrees].every(Number.isSafeInteger)) fail("--texts, --tokens, --threads and --degrees are whole numbers");

const pair = { model: values.model, "assistant-model": values["assistant-model"], device: "cpu", "max-context": 1024 };
const [row] = foretoken(["measure"], { ...pair, threads, prompts: values.prompts, texts });
const { target_latency_ms: target, drafter_latency_ms: drafter, acceptance } = row;
console.log(`${row.name}, ${row.device.name}, ${availableParallelism()} cores`);
console.log(`target ${target.toFixed(2)} ms, draft model ${drafter.toFixed(2)} ms, acceptance ${acceptance.toFixed(3)}; ${texts} texts of ${tokens} tokens\n`);

const prompts = readPrompts(values.prompts);

/** Returns milliseconds per token after the first, over all texts, and the statistics of the texts. */
function measured(degree) {
  const plain = { speculation: "off", threads };
  // The threads are divided between the targets and the draft model.
  const parallel = { "sp-degree": degree, "draft-device": "cpu", threads: threads * (degree + 1) };
  const options = { ...pair, "max-new-tokens": tokens, ...(degree ? parallel : plain) };
  const all = Array.from({ length: texts }, (_, text) => foretoken(["generate", prompts[text % prompts.length].prompt], options).stats);
  const seconds = mean(all.map(({ times }) => times.total - times.first_token));
  return { ms: (1000 * seconds) / mean(all.map((stats) => stats.num_emitted_tokens - 1)), all };
}

/** Returns predicted milliseconds per token. */
function predict(degree, target, drafter) {
  const latencies = { "target-latency": target, "drafter-latency": drafter, acceptance, "sp-degree": degree || 1, tokens };
  const simulated = foretoken(["simulate", "offline"], latencies);
  return (degree ? simulated.dsi : simulated.plain) / tokens;
}

console.log("SP degree    measured   predicted   ratio   from these texts   ratio");
for (const degree of degrees) {
  const { ms, all } = measured(degree);
  const predictions = [predict(degree, target, drafter)];
  if (degree) {
    const latency = (name) => 1000 * mean(all.map(({ distributed }) => distributed[name]));
    predictions.push(predict(degree, latency("target_latency"), latency("drafter_latency")));
  }
  const cells = predictions.map((predicted, i) => predicted.toFixed(2).padStart(i ? 19 : 12) + (ms / predicted).toFixed(2).padStart(8));
  console.log(`${String(degree || "plain").padEnd(9)}${ms.toFixed(2).padStart(12)}${cells.join("")}`);
}
