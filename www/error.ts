/** Errors, with stable codes. */

export type ErrorCode =
  | "aborted"
  | "bad-config"
  | "bad-option"
  | "bad-template"
  | "bad-tokenizer"
  | "bad-weights"
  | "context-full"
  | "device-lost"
  | "download-too-large"
  | "gpu-blocked"
  | "integrity"
  | "internal"
  | "network"
  | "non-finite-logits"
  | "not-found"
  | "out-of-gpu-memory"
  | "overloaded"
  | "storage"
  | "tokenizer-mismatch"
  | "unauthorized"
  | "unsupported-architecture"
  | "webgpu-unavailable";

/** An error of the engine. `code` is stable and for programs, `message` is for people. */
export class ForetokenError extends Error {
  declare code: ErrorCode;
  declare detail: unknown;

  /** @param options `cause`: the `reason` of the aborting signal */
  constructor({ code, message, detail = null }: { code: ErrorCode; message: string; detail?: unknown }, options?: ErrorOptions) {
    super(message, options);
    this.name = "ForetokenError";
    this.code = code;
    /** The values in the message by name; after an abort, the `Generation` so far. */
    this.detail = detail;
  }
}

export const failure = (code: ErrorCode, message: string, detail?: unknown, options?: ErrorOptions) => new ForetokenError({ code, message, detail }, options);

/** Returns true for errors of this package and of the engine's module. The code of a DOMException is a number. */
export const isFailure = (error: any) => typeof error?.code === "string";

/** Imports a module of the package on demand. */
export const onDemand = <T>(module: Promise<T>) =>
  module.catch((error) => {
    throw failure("network", `a file of the package could not be loaded: ${error.message}. Reload the page: there may be a new version`);
  });

export const aborted = (signal?: AbortSignal | null, detail?: unknown) => failure("aborted", "aborted", detail, signal ? { cause: signal.reason } : undefined);

export function badOption(option: string, given: unknown, allowed: string) {
  const value = inWords(given);
  const message = `${option}: ${value} is not allowed; allowed: ${allowed}`;
  return failure("bad-option", message, { option, value, allowed });
}

/** Returns JSON, if possible. */
export function inWords(value: unknown): string {
  if (typeof value === "function") return "a function";
  // JSON has no NaN.
  if (typeof value === "number") return String(value);
  try {
    return (JSON.stringify(value) ?? String(value)).slice(0, 100);
  } catch {
    return String(value);
  }
}
