/** The engine's options as fields. A new option is one more line of this table. */
import { make } from "./dom.js";

/**
 * @typedef {object} Option
 * @property {string} name as the engine calls it
 * @property {"quick" | "generation" | "loading" | "hub"} group where the field stands
 * @property {keyof typeof PARSE} kind
 * @property {unknown} [default] what the engine takes when the field is empty
 * @property {string} [start] what the field holds at first, where this page wants another value
 * @property {number} [min]
 * @property {number} [max]
 * @property {string[]} [values] of a choice
 * @property {string} hint
 */

/** @type {Option[]} */
export const OPTIONS = [
  { name: "max_new_tokens", group: "quick", kind: "number", default: 256, start: "96", min: 1, hint: "Most tokens to write" },

  {
    name: "do_sample",
    group: "generation",
    kind: "choice",
    values: ["auto", "true", "false", "model"],
    default: "auto",
    hint: "Draw tokens at random instead of taking the most likely ones. auto: if temperature, or another of the next four, is given; model: as its generation_config.json says. A chat takes model in place of auto if none of the five is given",
  },
  { name: "temperature", group: "generation", kind: "number", default: 1, min: 0, max: 100, hint: "Lower: surer; higher: wilder; 0: the most likely tokens" },
  { name: "top_k", group: "generation", kind: "number", default: "0, all", min: 0, hint: "So many most likely tokens remain" },
  {
    name: "top_p",
    group: "generation",
    kind: "number",
    default: "1, all",
    min: 0,
    max: 1,
    hint: "The most likely tokens that sum up to this probability remain",
  },
  {
    name: "min_p",
    group: "generation",
    kind: "number",
    default: "0, all",
    min: 0,
    max: 1,
    hint: "Tokens remain that have at least this times the highest probability",
  },
  { name: "seed", group: "generation", kind: "number", default: "another each time", min: 0, hint: "The same seed gives the same text" },
  {
    name: "repetition_penalty",
    group: "generation",
    kind: "number",
    default: "1, none",
    min: 0.01,
    max: 100,
    hint: "Makes tokens less likely that the text has already",
  },
  {
    name: "presence_penalty",
    group: "generation",
    kind: "number",
    default: "0, none",
    min: -2,
    max: 2,
    hint: "Makes tokens less likely that were written already, not those of the prompt",
  },
  { name: "frequency_penalty", group: "generation", kind: "number", default: "0, none", min: -2, max: 2, hint: "The same, the more often they were written" },
  { name: "no_repeat_ngram_size", group: "generation", kind: "number", default: "0, they may", min: 0, hint: "Runs of so many tokens do not come twice" },
  { name: "logit_bias", group: "generation", kind: "json", default: "none", hint: 'Added to the logits of tokens, by id: {"17": -2.5}' },
  { name: "bad_words_ids", group: "generation", kind: "json", default: "none", hint: "Token sequences that may not come: [[1, 2], [3]]" },
  { name: "min_new_tokens", group: "generation", kind: "number", default: 0, min: 0, hint: "No end of text before so many tokens" },
  { name: "stop", group: "generation", kind: "texts", default: "none", hint: "Texts that end the writing, one per line; \\n stands for a line break" },

  { name: "speculation", group: "generation", kind: "choice", values: ["auto", "off"], default: "auto", hint: "off: one token per forward pass" },
  {
    name: "overlap",
    group: "generation",
    kind: "choice",
    values: ["true", "false"],
    default: "true",
    hint: "Decode text and submit the next round while the GPU computes one",
  },
  {
    name: "num_assistant_tokens_schedule",
    group: "generation",
    kind: "choice",
    values: ["adaptive", "constant", "heuristic", "heuristic_transient"],
    default: "adaptive",
    hint: "How many draft tokens a round has. adaptive: as many, by whom, as was measured to be fastest; heuristic: 2 more when all were accepted, else 1 fewer",
  },
  {
    name: "drafter",
    group: "generation",
    kind: "choice",
    values: ["auto", "draft_model", "lookup", "prediction", "chain"],
    default: "auto",
    hint: "Who drafts. auto: whoever is fastest; chain: the prediction, else the lookup, else the draft model",
  },
  { name: "num_assistant_tokens", group: "generation", kind: "number", default: 5, min: 0, hint: "Draft tokens that a round begins with" },
  {
    name: "assistant_confidence_threshold",
    group: "generation",
    kind: "number",
    default: "0, never",
    min: 0,
    max: 1,
    hint: "A draft ends behind a token that the draft model finds less likely",
  },
  {
    name: "prompt_lookup_num_tokens",
    group: "generation",
    kind: "number",
    default: "as many as pay",
    min: 1,
    hint: "Most draft tokens of a lookup in the text so far",
  },
  {
    name: "max_matching_ngram_size",
    group: "generation",
    kind: "number",
    default: 2,
    min: 1,
    max: 64,
    hint: "Longest run of tokens that the lookup tries to find",
  },
  {
    name: "prompt_lookup_rule",
    group: "generation",
    kind: "choice",
    values: ["leftmost", "whole", "most_recent"],
    default: "leftmost",
    hint: "Which of several matches it takes; whole: the first, if all tokens asked for follow it",
  },
  { name: "prediction", group: "generation", kind: "long", default: "none", hint: "The text that is expected, to draft from" },
  {
    name: "acceptance",
    group: "generation",
    kind: "choice",
    values: ["coupled", "rejection"],
    default: "coupled",
    hint: "How drafts are accepted when drawing at random. rejection: a little more often, but then the text depends on the drafts",
  },

  {
    name: "tools",
    group: "generation",
    kind: "json",
    default: "none",
    hint: 'Of a chat: functions that the model may call: [{"type": "function", "function": {"name": "clock"}}]',
  },
  { name: "documents", group: "generation", kind: "json", default: "none", hint: 'Of a chat: what it is about: [{"title": "Sky", "text": "It is blue."}]' },
  {
    name: "chat_template_kwargs",
    group: "generation",
    kind: "json",
    default: "none",
    hint: 'Of a chat: other variables of its template: {"enable_thinking": false}',
  },
  {
    name: "context",
    group: "generation",
    kind: "choice",
    values: ["error", "shift"],
    default: "error",
    hint: "What to do with messages longer than the context; shift: drop the oldest turns",
  },
  {
    name: "device",
    group: "loading",
    kind: "choice",
    values: ["auto", "webgpu", "cpu"],
    default: "auto",
    hint: "What computes. auto: the GPU, or the CPU where the browser offers no GPU",
  },
  {
    name: "draft_device",
    group: "loading",
    kind: "choice",
    values: ["auto", "cpu"],
    default: "auto",
    hint: "Where the draft model runs. auto: in turn with the target; cpu: at the same time, beside it",
  },
  {
    name: "arithmetic",
    group: "loading",
    kind: "choice",
    values: ["auto", "f32", "int8"],
    default: "auto",
    hint: "How products of quantised weights are computed. int8 rounds activations to 8 bits; auto: where that is clearly faster here",
  },
  {
    name: "max_context",
    group: "loading",
    kind: "number",
    default: "the model's",
    min: 2,
    max: 1 << 20,
    hint: "Tokens that prompt and text may have together; the default ends at 4096",
  },
  {
    name: "dtype",
    group: "loading",
    kind: "choice",
    values: ["auto", "f32", "f16", "q8", "q4"],
    default: "auto",
    hint: "How weights are stored on the GPU: auto, as the files have them; q8 and q4 make less of floats, which rounds",
  },
  {
    name: "kv_dtype",
    group: "loading",
    kind: "choice",
    values: ["f32", "f16"],
    default: "f16, or f32 for weights in f32",
    hint: "How the cache stores numbers: f16 halves its memory, and rounds",
  },
  { name: "prefill_chunk", group: "loading", kind: "number", default: 64, min: 1, max: 4096, hint: "Prompt tokens that the GPU takes at a time" },
  {
    name: "sp_degree",
    group: "loading",
    kind: "number",
    default: 1,
    min: 1,
    max: 8,
    hint: "Targets that verify at the same time, each with its own memory; pays with several GPUs",
  },
  { name: "endpoint", group: "loading", kind: "text", default: "https://huggingface.co", hint: "The Hub. This page's policy must allow another host" },

  { name: "revision", group: "hub", kind: "text", default: "main", hint: "Branch, tag or commit" },
  { name: "token", group: "hub", kind: "secret", default: "none", hint: "For private and gated models. It goes to the Hub only, and is not stored" },
];

/** From what was typed to what the engine is told. What is no number goes there as it is: the engine says what it allows. */
const PARSE = {
  number: (text) => (Number.isNaN(Number(text)) ? text : Number(text)),
  choice: (text) => ({ true: true, false: false })[text] ?? text,
  long: (text) => text,
  json: (text) => {
    try {
      return JSON.parse(text);
    } catch {
      return text;
    }
  },
  text: (text) => text.trim(),
  secret: (text) => text.trim(),
  texts: (text) =>
    text
      .split(/\r?\n/)
      .filter(Boolean)
      .map((line) => line.replaceAll("\\n", "\n")),
};

/** @param {Option} option */
function control({ name, kind, values, start = "", default: normal }) {
  const common = { id: `option-${name}`, name, autocomplete: "off", spellcheck: false, dir: "auto" };
  if (kind === "choice") {
    const choices = values.map((value) => make("option", { value, textContent: value }));
    return make("select", common, make("option", { value: "", textContent: `default (${normal})` }), ...choices);
  }
  const rest = { ...common, value: start, placeholder: String(normal) };
  if (kind === "texts" || kind === "long") return make("textarea", { ...rest, rows: 2 });
  // Not type=number: it hides what is no number, and the engine's own words about it would never be seen.
  return make("input", { ...rest, type: kind === "secret" ? "password" : "text", inputMode: kind === "number" ? "numeric" : "text" });
}

/** @param {Option} option */
function range({ min, max }) {
  if (min === undefined) return "";
  return max === undefined ? ` (${min} or more)` : ` (${min} to ${max})`;
}

const input = (name) => /** @type {HTMLInputElement} */ (document.getElementById(`option-${name}`));

/** Puts every option's field into the element `options-GROUP`. */
export function buildSettings() {
  for (const option of OPTIONS) {
    const hint = make("p", { id: `hint-${option.name}`, className: "hint", textContent: `${option.hint}${range(option)}.` });
    const field = control(option);
    field.setAttribute("aria-describedby", hint.id);
    field.addEventListener("input", () => acquit(option.name));
    const label = make("label", { htmlFor: field.id }, make("code", { textContent: option.name }));
    document.getElementById(`options-${option.group}`).append(make("div", { className: "field" }, label, field, hint));
  }
}

/**
 * What the fields of these groups say; an empty field says nothing.
 * @param {...Option["group"]} groups
 * @returns {Record<string, any>}
 */
export function readSettings(...groups) {
  const said = OPTIONS.filter(({ name, group }) => groups.includes(group) && input(name).value.trim());
  return Object.fromEntries(said.map(({ name, kind }) => [name, PARSE[kind](input(name).value)]));
}

/**
 * What was typed into these groups' fields where it is not what they begin with, for an address; secrets never.
 * @param {...Option["group"]} groups
 */
export function typedSettings(...groups) {
  const typed = OPTIONS.filter(({ name, group, kind, start = "" }) => kind !== "secret" && groups.includes(group) && input(name).value.trim() !== start);
  return Object.fromEntries(typed.map(({ name }) => [name, input(name).value.trim()]));
}

/** @param {Record<string, string | number>} values by name; "" for the default */
export function writeSettings(values) {
  for (const [name, value] of Object.entries(values)) {
    input(name).value = String(value);
    acquit(name);
  }
}

export const resetSettings = () => writeSettings(Object.fromEntries(OPTIONS.map(({ name, start = "" }) => [name, start])));

/** @param {string} name */
function acquit(name) {
  input(name).removeAttribute("aria-invalid");
  delete document.getElementById(`hint-${name}`).dataset.refused;
}

/**
 * Marks the field that the engine refused, says so beside it, and opens what hides it.
 * @param {string} message
 * @param {{ option?: string } | null} detail of a `bad-option`
 */
export function markRefused(message, detail) {
  const refused = OPTIONS.find(({ name }) => detail?.option === name);
  if (!refused) return;
  const field = input(refused.name);
  const fold = field.closest("details");
  if (fold) fold.open = true;
  field.setAttribute("aria-invalid", "true");
  document.getElementById(`hint-${refused.name}`).dataset.refused = message;
  field.focus();
}
