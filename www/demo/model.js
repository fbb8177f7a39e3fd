/** Which model the visitor wants, and the engine that has it. */
import { Engine } from "../engine.js";
import { readSettings } from "./settings.js";

const at = (id) => /** @type {any} */ (document.getElementById(id));
const megabytes = (bytes) => `${(bytes / 1e6).toFixed(bytes < 1e7 ? 1 : 0)} MB`;
const TALES = {
  model: new URL("tales/target/", import.meta.url).href,
  assistant_model: new URL("tales/draft/", import.meta.url).href,
};

/** The files of the folder itself: others of the same names may lie in folders inside it. */
const picked = (input) => [...input.files].filter(({ webkitRelativePath }) => webkitRelativePath.split("/").length <= 2);

const SOURCES = {
  tales: () => TALES,
  hub: () => ({ model: at("hub-model").value.trim(), assistant_model: at("hub-assistant").value.trim() || undefined }),
  folder: () => {
    const assistant = picked(at("folder-assistant"));
    return { model: picked(at("folder-model")), assistant_model: assistant.length ? assistant : undefined };
  },
};

const source = () => document.querySelector("[name=source]:checked").value;
const wanted = () => ({ ...SOURCES[source()](), options: { ...readSettings("loading"), ...(source() === "hub" && readSettings("hub")) } });
const fingerprint = (value) =>
  JSON.stringify(value, (_, each) => (each instanceof File ? [each.webkitRelativePath, each.name, each.size, each.lastModified] : each));
const name = (model) => (Array.isArray(model) ? model[0]?.webkitRelativePath.split("/")[0] || "picked files" : model);

let engine = null;
let loaded = "";
/** What the report may say of the model: never the token. */
export let about = {};

/** Shows the fields of the chosen source, and what the next run will do. */
export function showChoice() {
  for (const part of document.querySelectorAll("[data-source]")) part.hidden = part.dataset.source !== source();
  if (engine && fingerprint(wanted()) !== loaded) at("model-state").textContent = "Changed: Load, or the next run, takes it.";
  else at("model-state").textContent = engine ? "Loaded." : "Not loaded yet: Load, or the first run, does it.";
}

/** Frees the GPU; the next run loads again. */
export function forget() {
  engine?.dispose();
  engine = null;
  at("facts").hidden = true;
  showChoice();
}

/**
 * The engine with the chosen model: the one that is here, or a new one in its place.
 * @param {AbortSignal} signal
 * @returns {Promise<Engine>}
 */
export async function need(signal) {
  const { model, assistant_model, options } = wanted();
  const key = fingerprint({ model, assistant_model, options });
  if (engine && key === loaded) return engine;
  if (!model.length) throw Object.assign(new Error(source() === "hub" ? "Name a model first." : "Pick the model's folder first."), { field: at(`${source()}-model`) });
  forget();
  const progress = new Progress();
  at("model-state").textContent = "Loading.";
  try {
    engine = await Engine.load(model, { ...options, assistant_model, signal, onProgress: (event) => progress.show(event) });
  } finally {
    progress.end();
    showChoice();
  }
  loaded = key;
  const { token, ...open } = options;
  about = { model: name(model), assistant_model: assistant_model ? name(assistant_model) : null, load_options: open, device: engine.device, memory: engine.memory, warnings: engine.warnings };
  showChoice();
  showFacts();
  return engine;
}

/** @param {string[]} warnings */
export function showWarnings(warnings) {
  at("warnings").replaceChildren(...[...new Set(warnings)].map((warning) => Object.assign(document.createElement("li"), { textContent: warning })));
}

function showFacts() {
  const { device, memory } = engine;
  const parts = ({ weights, kv, scratch }) => `${megabytes(weights + kv + scratch)} (weights ${megabytes(weights)}, cache ${megabytes(kv)})`;
  at("device").textContent = device.name || device.driver || "the browser gives no name";
  at("memory-target").textContent = parts(memory.target);
  at("memory-draft").textContent = memory.draft ? parts(memory.draft) : "none";
  at("facts").hidden = false;
  showWarnings(engine.warnings ?? []);
}

class Progress {
  files = new Map();

  constructor() {
    this.tell("Starting", 0);
  }

  tell(words, part) {
    at("doing").textContent = words;
    at("bar").value = part;
    at("progress").hidden = false;
  }

  /** @param {import("../engine.js").Progress} event */
  show({ phase, model, file, loaded, total }) {
    if (phase === "download") {
      this.files.set(`${model}/${file}`, { loaded, total });
      const [done, all] = ["loaded", "total"].map((key) => [...this.files.values()].reduce((sum, each) => sum + each[key], 0));
      this.tell(`Loading the model: ${megabytes(done)} of ${megabytes(all)}`, done / all);
    } else if (phase === "upload") this.tell(`To the GPU: ${megabytes(loaded)} of ${megabytes(total)}`, loaded / total);
    else this.tell("Compiling, and checking this GPU", loaded / total);
  }

  end() {
    at("progress").hidden = true;
  }
}
