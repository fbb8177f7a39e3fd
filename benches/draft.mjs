// node benches/draft.mjs: the cost of a draft model's step relative to a forward of its target, in bytes of weights read for one row.
// The kernels are the same, so the instructions of matmuls have the same ratio; the dispatches are counted as well. `head` is the
// head's share of a step; `cut` is a step whose head has only the 8,192 most frequent tokens (FR-Spec, arXiv 2502.14856).
import { readFileSync } from "node:fs";

const shapes = JSON.parse(readFileSync(new URL("../measure/src/shapes.json", import.meta.url)));
/** Bytes per weight: 2 for f16; 4 bits plus a 16-bit scale and a 16-bit min per 32 weights for q4. */
const TYPES = { f16: 2, q4: 20 / 32 };
const FREQUENT = 8192;

/** Counts the weights that a row reads, and the dispatches. */
function weights(name) {
  const { hidden_size: hidden, intermediate_size: mlp, num_hidden_layers: layers, vocab_size: vocab, ...heads } = shapes[name];
  const kv = (hidden * heads.num_key_value_heads) / heads.num_attention_heads;
  return {
    layers: layers * (2 * hidden * hidden + 2 * hidden * kv + 3 * hidden * mlp),
    head: vocab * hidden,
    cut: FREQUENT * hidden,
    dispatches: 5 * layers + 4,
  };
}

const line = (...cells) => console.log(cells.map((cell, i) => (i < 2 ? String(cell).padEnd(14) : String(cell).padStart(10))).join(" "));
line("draft", "target", "type", "step", "forward", "ratio", "head", "cut", "dispatches");
const target = "smollm2-1.7b";
for (const draft of ["smollm2-135m", "smollm2-360m"]) {
  for (const [type, bytes] of Object.entries(TYPES)) {
    const [small, large] = [weights(draft), weights(target)];
    const [step, forward] = [small.layers + small.head, large.layers + large.head];
    const mb = (count) => `${((bytes * count) / 1e6).toFixed(0)} MB`;
    line(
      draft,
      target,
      type,
      mb(step),
      mb(forward),
      (step / forward).toFixed(3),
      `${((100 * small.head) / step).toFixed(0)} %`,
      ((small.layers + small.cut) / forward).toFixed(3),
      `${small.dispatches}/${large.dispatches}`,
    );
  }
}
