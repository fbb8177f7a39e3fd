/** What goes wrong, under names that stay. */

/**
 * @typedef {"aborted" | "bad-config" | "bad-option" | "bad-template" | "bad-tokenizer" | "bad-weights" | "context-full"
 *   | "device-lost" | "download-too-large" | "gpu-blocked" | "integrity" | "internal" | "network" | "non-finite-logits" | "not-found"
 *   | "out-of-gpu-memory" | "overloaded" | "tokenizer-mismatch" | "unauthorized" | "unsupported-architecture" | "webgpu-unavailable"} ErrorCode
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
 * @param {AbortSignal | null} [signal] that did it
 * @param {unknown} [detail]
 */
export const aborted = (signal, detail) => new ForetokenError({ code: "aborted", message: "aborted", detail }, signal ? { cause: signal.reason } : undefined);

/**
 * @param {string} option
 * @param {unknown} given
 * @param {string} allowed in words
 */
export function badOption(option, given, allowed) {
  const value = inWords(given);
  const message = `${option}: ${value} is not allowed; allowed: ${allowed}`;
  return new ForetokenError({ code: "bad-option", message, detail: { option, value, allowed } });
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
