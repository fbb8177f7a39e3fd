// node benches/draft.mjs: what a step of a draft model costs against a forward of its target, by the bytes of weights that both read for
// one row. The kernels are the same, so the instructions of matmuls have the same ratio; the dispatches are counted besides. `head` is the
// head's share of a step; `cut` is a step whose head has only the 8,192 most frequent tokens (FR-Spec, arXiv 2502.14856).
import { readFileSync } from "node:fs";

const shapes = JSON.parse(readFileSync(new URL("../src/cli/bench/shapes.json", import.meta.url)));
/** Bytes of a weight: halves; 4 bits with a scale and a min of 16 bits for each 32. */
const TYPES = { f16: 2, q4: 20 / 32 };
const FREQUENT = 8192;

/** Weights that a row reads: of the layers, of the head. */
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
