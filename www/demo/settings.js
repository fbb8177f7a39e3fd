/** The engine's options as fields. */
import { make } from "./dom.js";
import { OPTIONS as DECLARED } from "./options.js";

/**
 * @typedef {object} Option
 * @property {string} name
 * @property {"quick" | "generation" | "loading" | "hub"} group place of the field
 * @property {keyof typeof PARSE} kind
 * @property {string} [label] in words; without one, the name is the label
 * @property {string} default in words
 * @property {string} hint
 * @property {string} [start] initial text of the field
 * @property {string} [range] allowed numbers, in words
 * @property {string[]} [values] of a choice
 * @property {string} [more] what this page adds to the hint
 */

/** Options without a field. */
const WITHOUT_FIELD = [
  ...["skip_special_tokens", "response_format", "logprobs", "top_logprobs", "continue_final_message", "add_generation_prompt"],
  ...["file", "assistant_file", "threads", "prompt_cache_bytes", "lookup_memory"],
];

/** Differences on this page. @type {Record<string, Partial<Option>>} */
const OWN = {
  max_new_tokens: { group: "quick", start: "96", label: "Length in tokens" },
  stop: { more: "One per line; \\n stands for a line break." },
  do_sample: { more: "A chat uses model instead of auto unless temperature, top_k, top_p, min_p or seed is given." },
  logit_bias: { more: 'Example: {"17": -2.5}' },
  bad_words_ids: { more: "Example: [[1, 2], [3]]" },
  prediction: { kind: "long" },
  tools: { more: 'Example: [{"type": "function", "function": {"name": "clock"}}]' },
  documents: { more: 'Example: [{"title": "Sky", "text": "It is blue."}]' },
  chat_template_kwargs: { more: 'Example: {"enable_thinking": false}' },
};

/** Options that the engine's module does not have. @type {Option[]} */
const HUB = [
  {
    name: "endpoint",
    group: "loading",
    kind: "text",
    default: "https://huggingface.co",
    hint: "Address of the Hub. This page's policy must allow another host.",
  },
  { name: "revision", group: "hub", kind: "text", default: "main", hint: "Branch, tag or commit." },
  { name: "token", group: "hub", kind: "secret", default: "none", hint: "For private and gated models. It is sent to the Hub only, and not stored." },
];

/** @type {Option[]} */
const OPTIONS = [
  ...DECLARED.filter(({ name }) => !WITHOUT_FIELD.includes(name)).map((option) => /** @type {Option} */ ({ ...option, ...OWN[option.name] })),
  ...HUB,
];

/** Converts typed text to an option. Invalid text is passed on, and the engine reports it. */
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

function control({ name, kind, values, start = "", default: normal }) {
  const common = { id: `option-${name}`, name, autocomplete: "off", spellcheck: false, dir: "auto" };
  if (kind === "choice") {
    const choices = values.map((value) => make("option", { value, textContent: value }));
    return make("select", common, make("option", { value: "", textContent: `default (${normal})` }), ...choices);
  }
  const rest = { ...common, value: start, placeholder: normal };
  if (kind === "texts" || kind === "long") return make("textarea", { ...rest, rows: 2 });
  // Not type=number, which hides invalid text, so that the engine could not report it.
  return make("input", { ...rest, type: kind === "secret" ? "password" : "text", inputMode: kind === "number" ? "numeric" : "text" });
}

const hintOf = ({ hint, range, more }) => [hint, range && `Allowed: ${range}.`, more].filter(Boolean).join(" ");

const input = (name) => /** @type {HTMLInputElement} */ (document.getElementById(`option-${name}`));

/** Adds a field for each option to the element `options-GROUP`. */
export function buildSettings() {
  for (const option of OPTIONS) {
    const hint = make("p", { id: `hint-${option.name}`, className: "hint", textContent: hintOf(option) });
    const field = control(option);
    field.setAttribute("aria-describedby", hint.id);
    field.addEventListener("input", () => acquit(option.name));
    const label = make("label", { htmlFor: field.id }, option.label ?? make("code", { textContent: option.name }));
    document.getElementById(`options-${option.group}`).append(make("div", { className: "field" }, label, field, hint));
  }
}

/** Returns the values of fields that are not empty. @param {...Option["group"]} groups @returns {Record<string, any>} */
export function readSettings(...groups) {
  const said = OPTIONS.filter(({ name, group }) => groups.includes(group) && input(name).value.trim());
  return Object.fromEntries(said.map(({ name, kind }) => [name, PARSE[kind](input(name).value)]));
}

/** Returns typed values that differ from the defaults, for an address. Never secrets. @param {...Option["group"]} groups */
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

function acquit(name) {
  input(name).removeAttribute("aria-invalid");
  delete document.getElementById(`hint-${name}`).dataset.refused;
}

/** Shows an error at the refused field and makes the field visible. @param {{ option?: string } | null} detail of a `bad-option` */
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
