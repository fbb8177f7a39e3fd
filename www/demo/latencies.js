/** Latencies and acceptance of a pair on this device, for the simulator. */
import { chosen, need, open } from "./model.js";

const PROMPT = "Once upon a time there was a king who had";
const TOKENS = 32;

/** Returns milliseconds per token without drafts. The first text is a warm-up. */
async function latency(engine, signal) {
  const options = { max_new_tokens: TOKENS, speculation: "off", signal };
  await engine.generate(PROMPT, { ...options, max_new_tokens: 4 }).result;
  const { stats } = await engine.generate(PROMPT, options).result;
  return 1000 / stats.times.tokens_per_second;
}

/** Returns the share of accepted guesses among checked ones. Guesses after a wrong one are not checked. */
export function acceptanceOf({ per_step_drafted: drafted, per_step_accepted: accepted }) {
  const right = accepted.reduce((sum, each) => sum + each, 0);
  const wrong = accepted.filter((each, i) => each < drafted[i]).length;
  return right + wrong ? right / (right + wrong) : 0;
}

/** Measures the chosen pair. Returns latencies in milliseconds and the acceptance rate. */
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
    draft.close();
  }
}
