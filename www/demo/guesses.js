/**
 * The rejected guesses. The engine counts them; their words are found again afterwards, by the lookup's own rule, or
 * by asking the draft model once more, which always says the same. Where neither is certain there are none, and the page shows
 * that something was rejected, but not what.
 */
import { open } from "./model.js";

/** Returns the text after the leftmost earlier place of the last tokens, two of them if they are found, else one. */
export function lookUp(/** @type {number[]} */ ids, /** @type {number} */ count) {
  for (const n of [2, 1]) {
    const last = ids.slice(-n);
    const start = ids.findIndex((_, i) => i + n < ids.length && last.every((id, j) => id === ids[i + j]));
    if (start >= 0) return ids.slice(start + n, start + n + count);
  }
  return [];
}

/** Returns the drafter of a round: from its accepted tokens or, if it has none, the only drafter of the text. */
function drafter({ tokens }, drafters) {
  const kept = tokens.find(({ origin }) => origin !== "target");
  return kept?.origin ?? (drafters.length === 1 ? drafters[0] : null);
}

/** Returns the drafters of a text. */
function drafters({ speculating }, { drafter = "auto" }, { assistant_model }) {
  if (speculating) return ["prediction", "lookup", "draft_model"].filter((each) => speculating.rounds[each]);
  if (drafter === "auto") return assistant_model ? ["draft_model"] : [];
  return drafter === "chain" ? ["lookup", "draft_model"] : [drafter];
}

/**
 * Finds the words that were rejected, by round.
 * @param {(string[] | null)[]} found where they go, as soon as they are known
 * @param {object} race
 * @param {import("../engine.js").Engine} race.engine
 * @param {import("./model.js").Spec} race.spec
 * @param {import("../engine.js").Prompt} race.prompt
 * @param {import("../engine.js").GenerateOptions} race.options
 * @param {import("./record.js").Recording} recording
 * @param {AbortSignal} signal
 */
export async function findRejected(found, { engine, spec, prompt, options }, { rounds, generation }, signal) {
  const { per_step_drafted: drafted, per_step_accepted: accepted } = generation.stats;
  // Other rules and random draws have other guesses.
  if (generation.stats.seed !== null || options.prompt_lookup_num_tokens || options.prompt_lookup_rule || options.max_matching_ngram_size) return;
  const ids = [...(await engine.tokenize(/** @type {any} */ (prompt)))];
  const draft = new DraftModel(spec, signal);
  const used = drafters(generation.stats, options, spec);
  try {
    for (const [i, round] of rounds.entries()) {
      const kept = accepted[i];
      if (drafted[i] > kept) {
        const by = drafter(round, used);
        const guesses = by === "lookup" ? lookUp(ids, drafted[i]) : by === "draft_model" ? await draft.guess(ids, drafted[i]) : [];
        // What was accepted must be what was guessed.
        if (guesses.length > kept && round.tokens.slice(0, kept).every(({ id }, j) => id === guesses[j])) {
          found[i] = await Promise.all(guesses.slice(kept).map((id) => engine.detokenize([id])));
        }
      }
      ids.push(...round.tokens.map(({ id }) => id));
    }
  } finally {
    draft.dispose();
  }
}

/** The draft model by itself, opened when it is first asked. */
class DraftModel {
  /** @type {import("../engine.js").Engine | null} */
  #engine = null;

  /** @param {import("./model.js").Spec} spec @param {AbortSignal} signal */
  constructor({ assistant_model, assistant_file }, signal) {
    Object.assign(this, { model: assistant_model, file: assistant_file, signal });
  }

  /** @param {number[]} ids @param {number} count @returns {Promise<number[]>} */
  async guess(ids, count) {
    // Another copy of a draft model from elsewhere may not fit.
    if (!String(this.model).startsWith(location.origin)) return [];
    this.#engine ??= await open(this.model, this.file, this.signal);
    const { token_ids } = await this.#engine.generate(ids, { max_new_tokens: count, speculation: "off", signal: this.signal }).result;
    return token_ids;
  }

  dispose() {
    this.#engine?.dispose();
  }
}
