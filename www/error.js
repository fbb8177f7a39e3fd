/** What goes wrong, under names that stay. */

/**
 * @typedef {"aborted" | "bad-config" | "bad-option" | "bad-template" | "bad-tokenizer" | "bad-weights" | "context-full"
 *   | "device-lost" | "download-too-large" | "gpu-blocked" | "integrity" | "internal" | "network" | "non-finite-logits" | "not-found"
 *   | "out-of-gpu-memory" | "overloaded" | "storage" | "tokenizer-mismatch" | "unauthorized" | "unsupported-architecture" | "webgpu-unavailable"} ErrorCode
 */

/** Every failure of the engine. `code` is stable and for programs, `message` is for people. */
export class ForetokenError extends Error {
  /**
   * @param {{ code: ErrorCode, message: string, detail?: unknown }} error
   * @param {ErrorOptions} [options] `cause`: the `reason` of the signal that aborted
   */
  constructor({ code, message, detail = null }, options) {
    super(message, options);
    this.name = "ForetokenError";
    /** @type {ErrorCode} */
    this.code = code;
    /** @type {unknown} the values behind the message, by name; the `Generation` so far of one that was aborted */
    this.detail = detail;
  }
}

/**
 * @param {ErrorCode} code
 * @param {string} message
 * @param {unknown} [detail]
 * @param {ErrorOptions} [options]
 */
export const failure = (code, message, detail, options) => new ForetokenError({ code, message, detail }, options);

/** Returns true for a {@link failure} and for an error of the engine's module. A DOMException has a code too, but a number. @param {any} error */
export const isFailure = (error) => typeof error?.code === "string";

/**
 * Imports a module of the package that is loaded on demand.
 * @template T
 * @param {Promise<T>} module
 */
export const onDemand = (module) =>
  module.catch((error) => {
    throw failure("network", `a file of the package could not be loaded: ${error.message}. Reload the page: there may be a new version`);
  });

/**
 * @param {AbortSignal | null} [signal] that did it
 * @param {unknown} [detail]
 */
export const aborted = (signal, detail) => failure("aborted", "aborted", detail, signal ? { cause: signal.reason } : undefined);

/**
 * @param {string} option
 * @param {unknown} given
 * @param {string} allowed in words
 */
export function badOption(option, given, allowed) {
  const value = inWords(given);
  const message = `${option}: ${value} is not allowed; allowed: ${allowed}`;
  return failure("bad-option", message, { option, value, allowed });
}

/** @param {unknown} value @returns {string} JSON where it can be */
export function inWords(value) {
  if (typeof value === "function") return "a function";
  // JSON knows no NaN.
  if (typeof value === "number") return String(value);
  try {
    return (JSON.stringify(value) ?? String(value)).slice(0, 100);
  } catch {
    return String(value);
  }
}
