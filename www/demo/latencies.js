/** Duration of a pair's forwards on this device, and the share of right guesses: input of the simulator. */
import { chosen, need, open } from "./model.js";

const PROMPT = "Once upon a time there was a king who had";
const TOKENS = 32;

/** Milliseconds per token of an engine that guesses nothing; the first text lets the device compile. */
async function latency(engine, signal) {
  const options = { max_new_tokens: TOKENS, speculation: "off", signal };
  await engine.generate(PROMPT, { ...options, max_new_tokens: 4 }).result;
  const { stats } = await engine.generate(PROMPT, options).result;
  return 1000 / stats.times.tokens_per_second;
}

/** The share of right guesses among the checked ones: guesses after a wrong one are not checked. */
export function acceptanceOf({ per_step_drafted: drafted, per_step_accepted: accepted }) {
  const right = accepted.reduce((sum, each) => sum + each, 0);
  const wrong = accepted.filter((each, i) => each < drafted[i]).length;
  return right + wrong ? right / (right + wrong) : 0;
}

/**
 * Measures the chosen pair.
 * @param {AbortSignal} signal
 * @returns {Promise<{ target: number, drafter: number, acceptance: number }>} milliseconds, and a share
 */
export async function measureLatencies(signal) {
  const { assistant_model, assistant_file } = chosen();
  if (!assistant_model) throw new Error("The chosen model has no draft model: choose one that has, or the tales pair.");
  const engine = await need(signal);
  const target = await latency(engine, signal);
  const { stats } = await engine.generate(PROMPT, { max_new_tokens: TOKENS, drafter: "draft_model", num_assistant_tokens_schedule: "constant", signal }).result;
  const draft = await open(assistant_model, assistant_file, signal);
  try {
    return { target, drafter: await latency(draft, signal), acceptance: acceptanceOf(stats) };
  } finally {
    draft.dispose();
  }
}
