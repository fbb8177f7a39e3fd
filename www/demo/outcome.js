/** The result of a race in words and numbers, without the page. */
import { times } from "./dom.js";

/**
 * @typedef {object} Outcome a recording lacks `spec`, `typed` and `digest`
 * @property {import("./model.js").Spec} [spec]
 * @property {string} prompt as it was typed
 * @property {"text" | "chat"} kind
 * @property {Record<string, any>} options
 * @property {Record<string, string>} [typed] options as they were typed, for an address
 * @property {string} device
 * @property {boolean} [lacksGpu] true if the models ran on the CPU by the engine's choice
 * @property {string} [recorded] task of the recording that the page comes with; absent for a measured race
 * @property {import("../engine.js").Generation} plain
 * @property {import("../engine.js").Generation} speculative
 * @property {import("../engine.js").Token[]} tokens of the text with guesses
 * @property {string} [digest] of their ids
 */

/** Ratios of speeds from 0.95 to 1.05 count as equal. */
const SAME_SPEED = 0.05;

/** Returns a digest of tokens: two FNV-1a hashes, because `crypto.subtle` needs a secure page. @param {number[]} ids */
export function digest(ids) {
  const words = ids.join();
  const hash = (/** @type {number} */ basis) => [...words].reduce((sum, letter) => Math.imul(sum ^ letter.charCodeAt(0), 0x01000193), basis) >>> 0;
  return [hash(0x811c9dc5), hash(0x1234567)].map((part) => part.toString(16).padStart(8, "0")).join("");
}

/** Returns the ratio to the plain speed; NaN if a text was too short. @param {Outcome} outcome */
export const ratio = ({ plain, speculative }) => speculative.stats.times.tokens_per_second / plain.stats.times.tokens_per_second;

const differ = ({ plain, speculative }) => plain.token_ids.join() !== speculative.token_ids.join();

/**
 * Returns the main number, its meaning, and a remark on the speed. The number and the remark may be empty.
 * @param {Outcome} outcome @returns {{ number: string, words: string, note?: string }}
 */
export function headline(outcome) {
  const {
    speculative: { token_ids, stats },
    options,
  } = outcome;
  if (options.acceptance === "rejection" && stats.seed !== null)
    return { number: "", words: "Drawn at random by rejection sampling: the two texts are each as likely as the model says." };
  if (differ(outcome)) return { number: "", words: "The two texts differ: please report this, with your device's name." };
  const same = `the same ${token_ids.length} tokens`;
  const value = ratio(outcome);
  if (!Number.isFinite(value) || !value) return { number: "", words: `T${same.slice(1)}.` };
  // Any difference is chance.
  if (!stats.num_draft_tokens)
    return {
      number: "",
      words: `T${same.slice(1)}. No guess was made: ${stats.speculating ? "it would not pay on this device." : "speculation is off, or there is nothing to guess with."}`,
    };
  if (value >= 1 + SAME_SPEED) return { number: times(value), words: `times as fast, ${same}` };
  // The number of passes does not depend on the device.
  const [passes, before] = [stats.num_spec_steps, outcome.plain.stats.num_spec_steps];
  const note =
    value < 1 - SAME_SPEED ? `Guesses cost more time than they saved here: ${value.toFixed(2)} times the speed.` : "The speed is the same on this device.";
  if (passes >= before) return { number: "", words: `T${same.slice(1)}.`, note };
  return { number: String(passes), words: `${passes === 1 ? "pass" : "passes"} of the big model instead of ${before}: ${same}`, note };
}

/** Returns the headline's number, with a sign if it is a ratio. @param {ReturnType<typeof headline>} headline */
export const figure = ({ number, words }) => (words.startsWith("times ") ? `${number}\u00d7` : number);

/** Explains the numbers in a sentence or two. @param {Outcome} outcome */
export function meaning(outcome) {
  const { plain, speculative } = outcome;
  const { num_spec_steps: passes, num_draft_tokens: drafted, num_accepted_draft_tokens: kept, num_emitted_tokens: tokens, times: spent } = speculative.stats;
  const speeds = `${plain.stats.times.tokens_per_second.toFixed(1)} tokens a second one at a time, ${spent.tokens_per_second.toFixed(1)} with guesses.`;
  if (!drafted) return `Every one of the ${tokens} tokens took a pass of its own: nobody guessed. ${speeds}`;
  const how = outcome.typed.num_assistant_tokens_schedule
    ? "set \u201cguess ahead\u201d back to the left."
    : "here the page made it guess, so that there is something to see.";
  const forced = !speculative.stats.speculating && ratio(outcome) < 1 - SAME_SPEED ? ` Left to itself, the engine guesses only where that pays: ${how}` : "";
  return `${drafted} guesses were made and ${kept} were right, so ${tokens} tokens took ${passes} passes of the big model instead of ${plain.stats.num_spec_steps}. ${speeds}${forced}`;
}

/** Formats a digest in groups of four digits. */
export const readable = (/** @type {string} */ digest) => digest.match(/.{1,4}/g)?.join(" ") ?? "";

/** Compares the digests of this visitor's text and of the text in a link, in words. @param {string} digest @param {string} expected */
export const sameAs = (digest, expected) =>
  digest === expected
    ? "The same text as in the link, token for token: both fingerprints are equal."
    : "Not the same text as in the link: the other device, or its version of the model, chose another token somewhere.";
