/** What a page's options say, as far as the page itself reads them: the engine's module reads the others. */
import { isAddress } from "./cache.js";
import { aborted, badOption } from "./error.js";
import { place, spawn } from "./spawn.js";

/**
 * @import { LoadOptions, Model, Server } from "./api.js"
 * @import { Loading, Source } from "./protocol.js"
 */

/**
 * How to load, or to inspect, a model. Throws where that cannot be.
 * @param {"load" | "inspect"} method
 * @param {Model | Server} model
 * @param {LoadOptions} [options]
 */
export function readLoad(method, model, options) {
  const {
    assistant_model,
    onProgress,
    signal,
    endpoint,
    revision,
    token,
    cache = place.cache,
    persist = false,
    shared = false,
    worker,
    wasm,
    ...rest
  } = checked(options);
  if (signal?.aborted) throw aborted(signal);
  // The browser may refuse, or ask the user; nothing waits for it.
  const remote = [model, assistant_model].some((files) => typeof files === "string" || files instanceof URL);
  if (persist && cache && remote) navigator.storage?.persist?.().catch(() => {});
  const base = place.base();
  const { url, model: name, api_key, tokenizer } = /** @type {any} */ (model)?.url ? /** @type {any} */ (model) : { tokenizer: model };
  const needsWebGpu = rest.device === "webgpu" || (!url && Number(rest.sp_degree) > 1);
  const inPage = place.spawn === spawn;
  const lacksGpu = method === "load" && inPage && needsWebGpu && !globalThis.navigator?.gpu;
  const isAlone = shared && inPage && typeof worker !== "function" && (!globalThis.SharedWorker || globalThis.origin === "null");
  /** @type {Loading} */
  const args = {
    model: portable(url ? "tokenizer" : "model", tokenizer),
    server: url && { urls: [url].flat().map((one) => absolute("url", one, base)), model: String(name ?? ""), api_key },
    assistant: assistant_model && portable("assistant_model", assistant_model),
    wasm: wasm && absolute("wasm", wasm, base),
    hub: { endpoint, revision, token, cache },
    base,
    warnings: isAlone ? ["shared: pages can share no worker here, so this page has an engine of its own"] : [],
    options: rest,
  };
  const where = typeof worker === "function" ? worker : worker && absolute("worker", worker, base);
  const shareName = shared && !isAlone ? sharedName(args) : undefined;
  return { args, onProgress, signal, lacksGpu, spawn: (/** @type {(reason: string) => void} */ failed) => place.spawn(where, shareName, failed) };
}

/** The load options that the engine's module does not see, with their types; null: the type is checked elsewhere. */
export const TYPES = {
  assistant_model: null,
  onProgress: "function",
  signal: null,
  endpoint: "string",
  revision: "string",
  token: "string",
  cache: "boolean",
  persist: "boolean",
  shared: "boolean",
  worker: null,
  wasm: null,
};

/**
 * Returns the options that are not null, which stands for the default. Throws if they are no object, or if a type is wrong.
 * @template {object} T
 * @param {T | null} [options]
 * @param {Record<string, string | null>} [all] types of all options that there are; without it, the engine's module knows the others
 * @returns {T}
 */
export function checked(options, all) {
  if (options != null && (typeof options !== "object" || Array.isArray(options))) throw badOption("options", options, "an object");
  const given = Object.entries(options ?? {}).filter(([, value]) => value != null);
  for (const [name, value] of given) {
    const type = /** @type {Record<string, string | null>} */ (all ?? TYPES)[name];
    if (all && type === undefined) throw badOption("options", name, Object.keys(all).join(", "));
    if (type && typeof value !== type) throw badOption(name, value, `a ${type}`);
    if (type === undefined && typeof value === "function") throw badOption(name, value, "functions as onProgress and worker only");
    if (name === "signal" && typeof value.addEventListener !== "function") throw badOption(name, value, "an AbortSignal");
  }
  return /** @type {T} */ (Object.fromEntries(given));
}

/**
 * @param {string} option
 * @param {string | URL} address
 * @param {string} [base]
 */
function absolute(option, address, base) {
  try {
    return new URL(address, base).href;
  } catch {
    throw badOption(option, address, "a URL");
  }
}

/** @param {string} option @param {any} model @returns {Source} */
function portable(option, model) {
  if (model instanceof URL) return model.href;
  const files = typeof FileList !== "undefined" && model instanceof FileList ? [...model] : model;
  const known = Array.isArray(files) ? files.every((file) => file instanceof Blob) : typeof files === "string" || files?.getFileHandle;
  if (!known) throw badOption(option, model, "owner/name on the Hub, a URL, files");
  return typeof files === "string" ? place.path(files) : files;
}

/**
 * What a worker is called that several pages share: those that load the same into it. Whose token it was is no difference, whose key is:
 * the server counts what is asked with it.
 * @param {Loading} args
 */
function sharedName({ model, assistant, server, hub: { token, ...hub }, base, options, ...rest }) {
  const models = [model, assistant]
    .filter((files) => files !== undefined)
    .map((files) => {
      if (typeof files !== "string") throw badOption("shared", true, "with models that have a name or a URL");
      return isAddress(files) ? absolute("model", files, base) : files;
    });
  if (!server && (Number(options.sp_degree) > 1 || options.draft_device === "cpu"))
    throw badOption("shared", true, "with one target, and the draft model where the target runs");
  const served = server && { ...server, api_key: trace(server.api_key) };
  return `foretoken ${JSON.stringify({ models, hub, options, served, ...rest })}`;
}

/** 32 bits that tell keys apart (FNV-1a): a name is no place for a key. @param {unknown} key */
const trace = (key) => [...String(key)].reduce((bits, letter) => Math.imul(bits ^ Number(letter.codePointAt(0)), 16777619), 2166136261);
