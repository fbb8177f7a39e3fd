/** The chosen model and its engine. */
import { Engine } from "../engine.js";
import { Download } from "./download.js";
import { TALES } from "./pairs.js";
import { readSettings } from "./settings.js";

/**
 * @typedef {object} Spec
 * @property {string} id of pairs.js; "other": a name typed by the visitor; "files": picked files
 * @property {string} name for people
 * @property {import("../engine.js").Model} model
 * @property {string} [file]
 * @property {import("../engine.js").Model} [assistant_model]
 * @property {string} [assistant_file]
 * @property {number} [bytes] approximate download, if known
 */

const WORKER = new URL("engine-worker.js", import.meta.url).href;

/** @type {Spec} */
let wanted = TALES;
/** @type {Engine | null} */
let engine = null;
let loaded = "";
/** The model in reports, without the token. @type {any} */
export let about = {};
/** Called if a model is chosen, loaded or released. @type {(() => void)[]} */
const listeners = [];

export const chosen = () => wanted;
/** Returns the engine, if the chosen model is loaded with the present settings. */
export const ready = () => (engine && loaded === fingerprint() ? engine : null);
export const onModel = (listener) => listeners.push(listener);
const tell = () => listeners.forEach((listener) => listener());

// Both texts of a race are the same, so an engine that remembers would guess the second one from the first.
const loading = () => ({ lookup_memory: 0, ...readSettings("loading"), ...readSettings("hub") });
const fingerprint = () =>
  JSON.stringify([wanted, loading()], (_, each) => (each instanceof File ? [each.webkitRelativePath, each.name, each.size, each.lastModified] : each));

export function choose(spec) {
  wanted = spec;
  tell();
}

/** Frees the GPU; the next run loads again. */
export function forget() {
  engine?.close();
  engine = null;
  tell();
}

/** Reads the headers of a model. */
export const inspect = ({ model, file }, signal) => Engine.inspect(model, { ...loading(), file, signal, worker: WORKER });

/** Loads another model, which the caller closes. */
export const open = (model, file, signal) => Engine.load(model, { ...loading(), sp_degree: undefined, file, signal, worker: WORKER });

/** Returns the engine of the chosen model; loads it if needed. @returns {Promise<Engine>} */
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

/** Loads, and continues after each pause. */
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

const described = (model) => (Array.isArray(model) ? model[0]?.webkitRelativePath.split("/")[0] || model[0]?.name : String(model));

/** Describes the device. @param {import("../engine.js").DeviceInfo} device */
export function deviceName({ name, driver, software, backend }) {
  if (backend === "Cpu") return `the ${name}`;
  return `${name || driver || "a GPU whose name the browser hides"}${software ? ", which computes on the CPU" : ""}`;
}

/** Returns true if the models run on the CPU by the engine's choice. */
export const lacksGpu = () => engine?.device.backend === "Cpu" && loading().device !== "cpu";
