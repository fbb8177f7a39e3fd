/** Parts of loading models in a worker: adapters, files, progress, errors as messages. */
import { Cache } from "./cache.js";
import { isFailure } from "./error.js";
import { transport } from "./http.js";
import { openFiles } from "./model-files.js";
import type { Failure, Loading } from "./protocol.js";

/** Seconds to wait for an adapter before `auto` uses the CPU. */
const ADAPTER = 10;

/** Makes requests for adapters reliable: a browser may have none just after its start, throw, or never answer. */
export function findAdapter(isAuto: boolean) {
  const gpu = navigator.gpu as any;
  if (!gpu) return;
  const { requestAdapter } = Object.getPrototypeOf(gpu);
  gpu.requestAdapter = async (options: any) => {
    const ask = async () => requestAdapter.call(gpu, options);
    const asked = ask()
      .then(async (adapter) => adapter ?? (await transport.pause(0.2), ask()))
      .catch(() => null);
    return isAuto ? Promise.race([asked, transport.pause(ADAPTER).then(() => null)]) : asked;
  };
}

/** Returns the browser's name of the GPU, which the engine's module does not get. */
export async function adapterName() {
  const adapter = await navigator.gpu.requestAdapter({ powerPreference: "high-performance" });
  const { description = "", vendor = "", architecture = "" } = adapter?.info ?? {};
  return description || `${vendor} ${architecture}`.trim();
}

/** Returns true if there are two adapters of one kind. Kinds round differently, so several targets need the same. */
export async function hasTwins() {
  const preferences = ["high-performance", "low-power"] as const;
  const adapters = await Promise.all(preferences.map((powerPreference) => navigator.gpu.requestAdapter({ powerPreference })));
  const [a, b] = adapters.map((adapter) => [adapter?.info?.vendor, adapter?.info?.architecture, adapter?.info?.description].join());
  // Browsers may hide the description.
  return a === b && a.length > 3;
}

type Context = { emit: (event: unknown) => void; warn: (text: string) => void; signal: AbortSignal };

/** Returns functions that open models and report progress. */
export function opening({ hub, base }: Pick<Loading, "hub" | "base">, { emit, signal, warn }: Context) {
  const cache = hub.cache ? new Cache(warn) : undefined;
  const tell: (phase: string, loaded: number, total: number) => void = (phase, loaded, total) => emit({ phase, model: "", file: "", loaded, total });
  let uploaded = false;
  return {
    open: (model: any, role: "target" | "assistant") => openFiles(model, { ...hub, cache, base, signal, role, onProgress: emit }),
    upload(loaded: number, total: number) {
      tell("upload", loaded, total);
      // After the upload, kernels are compiled and checked.
      if (loaded === total && !uploaded) tell("compile", 0, 1);
      uploaded = loaded === total;
    },
    done: () => tell("compile", 1, 1),
  };
}

/** Drops progress that falls. */
export function rising(emit: (event: any) => void): (event: any) => void {
  const most = new Map();
  return (event) => {
    const { phase, model, file, loaded } = event;
    const what = [phase, model, file].join();
    if (loaded < (most.get(what) ?? 0)) return;
    most.set(what, loaded);
    emit(event);
  };
}

const panicked = () => (globalThis as any).foretoken_panic;

export function explain(error: any): Failure {
  if (isFailure(error)) return { code: error.code, message: error.message, detail: error.detail ?? null };
  return { code: "internal", message: String(panicked() ?? error?.stack ?? error), detail: null };
}
