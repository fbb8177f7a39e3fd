/** Options that the page itself reads. The engine's module reads the others. */
import { aborted, badOption, onDemand } from "./error.js";
import { platform, startWorker } from "./start-worker.js";
import type { LoadOptions, Model, Server } from "./api.js";
import type { Loading, Source } from "./protocol.js";

/** Returns how to load, or to inspect, a model. Rejects if that is impossible. */
export async function readLoad(method: "load" | "inspect", model: Model | Server, options?: LoadOptions) {
  const {
    assistant_model,
    onProgress,
    signal,
    endpoint,
    revision,
    token,
    cache = platform.cache,
    persist = false,
    shared = false,
    worker,
    wasm,
    ...rest
  } = checked(options) as LoadOptions;
  if (signal?.aborted) throw aborted(signal);
  // The browser may refuse, or ask the user; nothing waits for it.
  const remote = [model, assistant_model].some((files) => typeof files === "string" || files instanceof URL);
  if (persist && cache && remote) navigator.storage?.persist?.().catch(() => {});
  const base = platform.base();
  const { url, model: name, api_key, tokenizer } = (model as any)?.url ? (model as any) : { tokenizer: model };
  const target = await portable(url ? "tokenizer" : "model", tokenizer, rest, "file");
  const needsWebGpu = rest.device === "webgpu" || (!url && Number(rest.sp_degree) > 1);
  const inPage = platform.startWorker === startWorker;
  if (method === "load" && inPage && needsWebGpu && !globalThis.navigator?.gpu) throw (await onDemand(import("./error-hints.js"))).noGpu();
  const isAlone = shared && inPage && typeof worker !== "function" && (!globalThis.SharedWorker || globalThis.origin === "null");
  const args: Loading = {
    model: target,
    server: url && { urls: [url].flat().map((one) => absolute("url", one, base)), model: String(name ?? ""), api_key },
    assistant: assistant_model && (await portable("assistant_model", assistant_model, rest, "assistant_file")),
    wasm: wasm && absolute("wasm", wasm, base),
    hub: { endpoint, revision, token, cache },
    base,
    warnings: isAlone ? ["shared: pages can share no worker here, so this page has an engine of its own"] : [],
    options: rest,
  };
  const where = typeof worker === "function" ? worker : worker && absolute("worker", worker, base);
  const shareName = shared && !isAlone ? (await onDemand(import("./shared-name.js"))).sharedName(args) : undefined;
  return { args, onProgress, signal, startWorker: (failed: (reason: string) => void) => platform.startWorker(where, shareName, failed) };
}

/** The load options that the engine's module does not see, with their types; null: the type is checked elsewhere. */
export const TYPES: Record<string, string | null> = {
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
 * @param all types of all options that there are; without it, the engine's module knows the others
 */
export function checked<T extends object>(options?: T | null, all?: Record<string, string | null>): T {
  if (options != null && (typeof options !== "object" || Array.isArray(options))) throw badOption("options", options, "an object");
  const given = Object.entries<any>(options ?? {}).filter(([, value]) => value != null);
  for (const [name, value] of given) {
    const type = (all ?? TYPES)[name];
    if (all && type === undefined) throw badOption("options", name, Object.keys(all).join(", "));
    if (type && typeof value !== type) throw badOption(name, value, `a ${type}`);
    if (type === undefined && typeof value === "function") throw badOption(name, value, "functions as onProgress and worker only");
    if (name === "signal" && typeof value.addEventListener !== "function") throw badOption(name, value, "an AbortSignal");
  }
  return Object.fromEntries(given) as T;
}

export function absolute(option: string, address: string | URL, base?: string) {
  try {
    return new URL(address, base).href;
  } catch {
    throw badOption(option, address, "a URL");
  }
}

/** Splits the name of a model on the Hub, or the address of a page there, into the model and its file. */
function split(model: string): [model: string, file?: string] {
  const page = /^https:\/\/(?:huggingface\.co|hf\.co)\/([\w.-]+\/[\w.-]+)(?:\/(?:tree|blob)\/([^/?#]+)(?:\/([^?#]+))?)?\/?(?:[?#].*)?$/;
  const [, name, revision, file] = page.exec(model) ?? /^([\w.-]+\/[\w.-]+)(?:@([^:]+))?(?::(.+))?$/.exec(model) ?? ["", model];
  return [revision ? `${name}@${decodeURIComponent(revision)}` : name, file && decodeURIComponent(file)];
}

/** Returns a model as the worker gets it. Its file, if its name has one, is set as this option. */
async function portable(option: string, model: any, options: any, fileOption: "file" | "assistant_file"): Promise<Source> {
  const picked = typeof model?.getFile === "function" ? await model.getFile() : model;
  if (picked instanceof Blob) return [picked as File];
  const files = typeof FileList !== "undefined" && picked instanceof FileList ? [...picked] : picked;
  if (Array.isArray(files) ? files.every((file) => file instanceof Blob) : files?.getFileHandle) return files;
  if (typeof files !== "string" && !(files instanceof URL)) throw badOption(option, model, "owner/name on the Hub, a URL, files");
  const [name, file] = split(String(files));
  if (file && (options[fileOption] ?? file) !== file) throw badOption(fileOption, options[fileOption], `${file}, as in the model's name`);
  if (file) options[fileOption] = file;
  return files instanceof URL ? name : platform.path(name);
}
