/** Which model the visitor wants, and the engine that has it. */
import { Engine } from "../engine.js";
import { Download } from "./download.js";
import { TALES } from "./pairs.js";
import { readSettings } from "./settings.js";

/**
 * @typedef {object} Spec What is to be loaded.
 * @property {string} id of pairs.js; "other" for what the visitor names, "files" for what was picked
 * @property {string} name for people
 * @property {import("../engine.js").Model} model
 * @property {string} [file]
 * @property {import("../engine.js").Model} [assistant_model]
 * @property {string} [assistant_file]
 * @property {number} [bytes] to download, about, where that is known
 */

const WORKER = new URL("engine-worker.js", import.meta.url).href;

/** @type {Spec} */
let wanted = TALES;
/** @type {Engine | null} */
let engine = null;
let loaded = "";
/** The model as a report may show it: never the token. @type {any} */
export let about = {};
/** Callbacks for a model that was chosen, loaded or released. @type {(() => void)[]} */
const listeners = [];

export const chosen = () => wanted;
/** The engine, if the chosen model is loaded as the settings are now. */
export const ready = () => (engine && loaded === fingerprint() ? engine : null);
/** @param {() => void} listener */
export const onModel = (listener) => listeners.push(listener);
const tell = () => listeners.forEach((listener) => listener());

/** Options of loading, those of the Hub among them. */
const loading = () => ({ ...readSettings("loading"), ...readSettings("hub") });
const fingerprint = () =>
  JSON.stringify([wanted, loading()], (_, each) => (each instanceof File ? [each.webkitRelativePath, each.name, each.size, each.lastModified] : each));

/** @param {Spec} spec */
export function choose(spec) {
  wanted = spec;
  tell();
}

/** Frees the GPU; the next run loads again. */
export function forget() {
  engine?.dispose();
  engine = null;
  tell();
}

/** Reads the headers of a model before it is downloaded. @param {Spec} spec @param {AbortSignal} signal */
export const inspect = ({ model, file }, signal) => Engine.inspect(model, { ...loading(), file, signal, worker: WORKER });

/** Loads another model in addition to the loaded one; the caller disposes of it. */
export const open = (model, file, signal) => Engine.load(model, { ...loading(), sp_degree: undefined, file, signal, worker: WORKER });

/**
 * The engine with the chosen model: the one that is here, or a new one in its place.
 * @param {AbortSignal} signal
 * @returns {Promise<Engine>}
 */
export async function need(signal) {
  const here = ready();
  if (here) return here;
  const [spec, key, options] = [wanted, fingerprint(), loading()];
  forget();
  const download = new Download(spec.name);
  try {
    engine = await load(spec, options, download, signal);
  } finally {
    download.end();
  }
  loaded = key;
  const { token, ...open } = options;
  about = {
    model: described(spec.model),
    assistant_model: spec.assistant_model ? described(spec.assistant_model) : null,
    load_options: open,
    device: engine.device,
    memory: engine.memory,
    warnings: engine.warnings,
  };
  tell();
  return engine;
}

/** Loads, again after each pause: what came before it is kept. */
async function load({ model, file, assistant_model, assistant_file }, options, download, signal) {
  for (;;) {
    const { pause } = download;
    try {
      const signals = AbortSignal.any([signal, pause.signal]);
      return await Engine.load(model, {
        ...options,
        file,
        assistant_model,
        assistant_file,
        worker: WORKER,
        signal: signals,
        onProgress: (event) => download.show(event),
      });
    } catch (error) {
      if (!pause.signal.aborted || signal.aborted) throw error;
      await download.resumed(signal);
    }
  }
}

/** @param {any} model */
const described = (model) => (Array.isArray(model) ? model[0]?.webkitRelativePath.split("/")[0] || model[0]?.name : String(model));

/** The device, in the visitor's words. @param {import("../engine.js").DeviceInfo} device */
export function deviceName({ name, driver, software, backend }) {
  if (backend === "Cpu") return `the ${name}`;
  return `${name || driver || "a GPU whose name the browser hides"}${software ? ", which computes on the CPU" : ""}`;
}

/** True if the models run on the CPU although the visitor did not ask for that. */
export const lacksGpu = () => engine?.device.backend === "Cpu" && loading().device !== "cpu";
