/** Loads the first of several models that this machine can run and this page can reach. */
import { Engine } from "./engine.js";
import { ForetokenError, badOption, failure } from "./error.js";
import { OpenAI } from "./openai.js";
import { checked } from "./options.js";
import type { Candidate, LoadOptions, Server, Skipped } from "./api.js";

/** Options of a server without a `tokenizer`. */
const SERVER: Record<string, string | null> = { api_key: "string", max_download: null, onProgress: "function", signal: null };

/** @param options defaults of all candidates */
export async function loadFirst(given: Server | readonly Candidate[], options?: LoadOptions): Promise<Engine> {
  const candidates = [given].flat();
  if (!candidates.length) throw badOption("model", [], "one candidate or more");
  const skipped: Skipped[] = [];
  for (const candidate of candidates) {
    const { model, url, ...own } = described(candidate);
    if (url && !own.tokenizer) checked(own, SERVER);
    try {
      const engine = await begin(model, url, { ...options, ...own });
      engine.skipped = skipped;
      return engine;
    } catch (error) {
      if (!(error instanceof ForetokenError) || ["bad-option", "aborted"].includes(error.code)) throw error;
      skipped.push({ model: called(model), ...(url && { url: [url].flat().join(", ") }), code: error.code, message: error.message });
    }
  }
  const reasons = skipped.map(({ model, url, message }) => `${url ? `${model} at ${url}` : model}: ${message}`);
  const message = skipped.length > 1 ? `no candidate can serve. ${reasons.join("; ")}` : skipped[0].message;
  throw failure(skipped[skipped.length - 1].code, message, { skipped });
}

/** Returns a candidate as an object. */
function described(candidate: any): any {
  const isModel = typeof candidate === "string" || candidate instanceof URL || Array.isArray(candidate) || candidate?.getFileHandle;
  if (isModel) return { model: candidate };
  if (!candidate?.model) throw badOption("model", candidate, "of a candidate: { model, ... } or { url, model, ... }");
  return candidate;
}

const called = (model: any): string => (typeof model === "string" || model instanceof URL ? String(model) : (model.name ?? "files"));

async function begin(
  model: any,
  url: any,
  { max_download, api_key, tokenizer, ...options }: LoadOptions & { max_download?: number; api_key?: string; tokenizer?: any },
) {
  if (url && !tokenizer) {
    const server = new OpenAI({ url, model, api_key });
    const { onProgress, signal } = options;
    // No GPU is required.
    const engine = await Engine.load(server.url, { device: "auto", onProgress, signal, worker: () => server.connect() as any });
    engine.chat.completions.create = server.create.bind(server) as any;
    return engine;
  }
  if (max_download !== undefined) await check(url ? undefined : model, max_download, options);
  return Engine.load(url ? { url, model, api_key, tokenizer } : model, options);
}

/** Throws if loading would download more than this many bytes. @param model the target, if it runs on this device */
async function check(model: any, most: number, { assistant_model, assistant_file, sp_degree, ...options }: LoadOptions) {
  if (!(most >= 0)) throw badOption("max_download", most, "bytes, 0 or more");
  let bytes = 0;
  const models = [
    [model, options.file],
    [assistant_model, assistant_file],
  ];
  for (const [files, file] of models.filter(([files]) => files)) {
    const { missing_bytes, unfit } = await Engine.inspect(files, { ...options, file });
    if (unfit && files === model) throw failure("out-of-gpu-memory", unfit);
    bytes += missing_bytes;
  }
  if (bytes > most) throw failure("download-too-large", `${bytes} bytes to download, ${most} are allowed`, { bytes, max_download: most });
}
