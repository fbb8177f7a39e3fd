/**
 * The texts of rejected guesses, which the engine only counts. They are computed again by the lookup's rule or by the draft model. If the
 * result is not certain, the page shows guesses without text.
 */
import { open } from "./model.js";

/** Returns the text after the leftmost earlier match of the last two tokens or, without one, of the last token. */
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
  if (speculating) return ["prediction", "lookup", "suffix", "draft_model"].filter((each) => speculating.rounds[each]);
  if (drafter === "auto") return assistant_model ? ["draft_model"] : [];
  return drafter === "chain" ? ["lookup", "draft_model"] : [drafter];
}

/** Finds the texts of rejected guesses by round. @param {(string[] | null)[]} found gets them one after the other */
export async function findRejected(found, { engine, spec, prompt, options }, { rounds, generation }, signal) {
  const { per_step_drafted: drafted, per_step_accepted: accepted } = generation.stats;
  // Other rules and sampling give other guesses.
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
        // A check: accepted tokens must be guessed again.
        if (guesses.length > kept && round.tokens.slice(0, kept).every(({ id }, j) => id === guesses[j])) {
          found[i] = await Promise.all(guesses.slice(kept).map((id) => engine.detokenize([id])));
        }
      }
      ids.push(...round.tokens.map(({ id }) => id));
    }
  } finally {
    draft.close();
  }
}

/** The draft model alone, loaded on first use. */
class DraftModel {
  /** @type {import("../engine.js").Engine | null} */
  #engine = null;

  constructor({ assistant_model, assistant_file }, signal) {
    Object.assign(this, { model: assistant_model, file: assistant_file, signal });
  }

  async guess(ids, count) {
    // Memory may not suffice for another copy.
    if (!String(this.model).startsWith(location.origin)) return [];
    this.#engine ??= await open(this.model, this.file, this.signal);
    const { token_ids } = await this.#engine.generate(ids, { max_new_tokens: count, speculation: "off", signal: this.signal }).result;
    return token_ids;
  }

  close() {
    this.#engine?.close();
  }
}
