/** The engine's options as fields. A new option is one more line of this table. */

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

  { name: "speculation", group: "generation", kind: "choice", values: ["auto", "off"], default: "auto", hint: "auto: with what there is, a lookup if asked for, else the draft model" },
  { name: "num_assistant_tokens", group: "generation", kind: "number", default: 5, min: 0, hint: "Draft tokens that a round begins with" },
  { name: "num_assistant_tokens_schedule", group: "generation", kind: "choice", values: ["constant", "heuristic", "heuristic_transient"], default: "heuristic", hint: "How that number changes: 2 more when all were accepted, else 1 fewer" },
  { name: "prompt_lookup_num_tokens", group: "generation", kind: "number", default: "no lookup", min: 1, hint: "Draft tokens per round, looked up in the text so far instead of asking the draft model" },
  { name: "max_matching_ngram_size", group: "generation", kind: "number", default: 2, min: 1, max: 64, hint: "Longest run of tokens that the lookup tries to find" },
  { name: "prompt_lookup_rule", group: "generation", kind: "choice", values: ["leftmost", "whole", "most_recent"], default: "leftmost", hint: "Which of several matches it takes; whole: the first, if all tokens asked for follow it" },
  { name: "stop", group: "generation", kind: "texts", default: "none", hint: "Texts that end the writing, one per line; \\n stands for a line break" },

  { name: "max_context", group: "loading", kind: "number", default: "the model's", min: 2, max: 1 << 20, hint: "Tokens that prompt and text may have together; the default ends at 4096" },
  { name: "kv_dtype", group: "loading", kind: "choice", values: ["f32", "f16"], default: "f32", hint: "How the cache stores numbers: f16 halves its memory, and rounds" },
  { name: "prefill_chunk", group: "loading", kind: "number", default: 64, min: 1, max: 4096, hint: "Prompt tokens that the GPU takes at a time" },
  { name: "endpoint", group: "loading", kind: "text", default: "https://huggingface.co", hint: "The Hub. This page's policy must allow another host" },

  { name: "revision", group: "hub", kind: "text", default: "main", hint: "Branch, tag or commit" },
  { name: "token", group: "hub", kind: "secret", default: "none", hint: "For private and gated models. It goes to the Hub only, and is not stored" },
];

/** From what was typed to what the engine is told. What is no number goes there as it is: the engine says what it allows. */
const PARSE = {
  number: (text) => (Number.isNaN(Number(text)) ? text : Number(text)),
  choice: (text) => text,
  text: (text) => text.trim(),
  secret: (text) => text.trim(),
  texts: (text) => text.split(/\r?\n/).filter(Boolean).map((line) => line.replaceAll("\\n", "\n")),
};

const make = (tag, properties = {}, ...children) => {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
};

/** @param {Option} option */
function control({ name, kind, values, start = "", default: normal }) {
  const common = { id: `option-${name}`, name, autocomplete: "off", spellcheck: false };
  if (kind === "choice") {
    const choices = values.map((value) => make("option", { value, textContent: value }));
    return make("select", common, make("option", { value: "", textContent: `default (${normal})` }), ...choices);
  }
  const rest = { ...common, value: start, placeholder: String(normal) };
  if (kind === "texts") return make("textarea", { ...rest, rows: 2 });
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
