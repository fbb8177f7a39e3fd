/** Latencies and acceptance of the toy models on this device, for the simulator. */
import { Engine } from "../../engine.js";
import { TALES } from "../pairs.js";

const PROMPT = "Once upon a time there was a king who had";
const TOKENS = 32;
const WORKER = new URL("../engine-worker.js", import.meta.url).href;

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

/** Measures the pair. Returns latencies in milliseconds and the acceptance rate. @param {AbortSignal} signal */
export async function measureLatencies(signal) {
  const { model, assistant_model } = TALES;
  // The texts are equal, so a memory of texts would guess the later ones from the first.
  const options = { lookup_memory: 0, worker: WORKER, signal };
  const engine = await Engine.load(model, { ...options, assistant_model });
  try {
    const target = await latency(engine, signal);
    const { stats } = await engine.generate(PROMPT, { max_new_tokens: TOKENS, drafter: "draft_model", num_assistant_tokens_schedule: "constant", signal })
      .result;
    const draft = await Engine.load(assistant_model, options);
    try {
      return { target, drafter: await latency(draft, signal), acceptance: acceptanceOf(stats) };
    } finally {
      draft.close();
    }
  } finally {
    engine.close();
  }
}
