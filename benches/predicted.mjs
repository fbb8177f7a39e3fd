// Predicts what trained drafters gain on devices on which a pass of 8 rows takes 1.2, 1.5 or 2 times as long as one of a row. Nothing is
// measured: weights are counted, and acceptances are published ones. `node benches/predicted.mjs` prints the table of docs/drafters.md.

/** Devices: T(8) / T(1). */
const DEVICES = [1.2, 1.5, 2];

/**
 * Pairs. `read`: weights that the target reads per token. `drafter`: weights of a pass of the drafter, with the head that it uses, in millions.
 * `rows`: rows of that pass. `steps`: passes per draft. `each`: weights read once more for each draft token. `tokens`: tokens per round for a
 * number of draft tokens, as published.
 */
const PAIRS = [
  // LFM2.5-1.2B: 295.7M without embedding and head (65,536 x 2,048); a Markov head of 65,536 x 256. 57 % of 7 draft tokens are accepted.
  { name: "LFM2.5-1.2B, DSpark", drafts: 7, read: 1170, drafter: 295.7 + 134.2, rows: 7, steps: 1, each: 16.8, tokens: 1 + 0.57 * 7 },
  // Five layers of Qwen3-4B and the projection of five hidden states; head 151,936 x 2,560. Acceptance of the 8B on MT-bench and HumanEval.
  { name: "Qwen3-4B, DFlash, chat", drafts: 15, read: 4022, drafter: 538 + 389, rows: 16, steps: 1, each: 0, tokens: 4.24 },
  { name: "Qwen3-4B, DFlash, code", drafts: 15, read: 4022, drafter: 538 + 389, rows: 16, steps: 1, each: 0, tokens: 6.5 },
  // 78M with the head. Acceptance of the E4B on MT-bench, with two draft tokens.
  { name: "Gemma 4 E2B, assistant", drafts: 2, read: 2300, drafter: 78, rows: 1, steps: 2, each: 0, tokens: 2.28 },
  // A layer of 61M and the target's head, 248,320 x 2,048. 75 % of draft tokens are accepted, each after those before it.
  { name: "Qwen3.5-2B, MTP layer", drafts: 2, read: 1890, drafter: 61 + 508.6, rows: 1, steps: 2, each: 0, tokens: 1 + 0.75 + 0.75 ** 2 },
];

/** The time of a pass of `rows` rows in passes of one: linear, as measured on GPUs up to 16 rows. */
const pass = (rows, eight) => 1 + ((eight - 1) * (rows - 1)) / 7;

const digits = (number) => number.toFixed(2);
console.log(`| pair | draft tokens | tokens per round | draft, in target forwards | ${DEVICES.map((device) => `T(8) = ${device}`).join(" | ")} |`);
console.log(`|---|---|---|---|${DEVICES.map(() => "---|").join("")}`);
for (const { name, drafts, read, drafter, rows, steps, each, tokens } of PAIRS) {
  const draft = (eight) => (steps * drafter * pass(rows, eight) + each * drafts) / read;
  const gains = DEVICES.map((device) => `${digits(tokens / (pass(drafts + 1, device) + draft(device)))}x`);
  console.log(`| ${name} | ${drafts} | ${digits(tokens)} | ${digits(draft(DEVICES[0]))} | ${gains.join(" | ")} |`);
}
