/** What goes wrong, under names that stay. */
export type ErrorCode = "aborted" | "bad-config" | "bad-option" | "bad-template" | "bad-tokenizer" | "bad-weights" | "context-full" | "device-lost" | "gpu-blocked" | "integrity" | "internal" | "network" | "non-finite-logits" | "not-found" | "out-of-gpu-memory" | "unsupported-architecture" | "webgpu-unavailable";
/**
 * @typedef {"aborted" | "bad-config" | "bad-option" | "bad-template" | "bad-tokenizer" | "bad-weights" | "context-full"
 *   | "device-lost" | "gpu-blocked" | "integrity" | "internal" | "network" | "non-finite-logits" | "not-found"
 *   | "out-of-gpu-memory" | "unsupported-architecture" | "webgpu-unavailable"} ErrorCode
 */
/** Every failure of the engine. `code` is stable and for programs, `message` is for people. */
export declare class ForetokenError extends Error {
    /** @type {ErrorCode} */
    code: ErrorCode;
    /** @type {unknown} the values behind the message, by name; the `Generation` so far of one that was aborted */
    detail: unknown;
    /**
     * @param {{ code: ErrorCode, message: string, detail?: unknown }} error
     * @param {ErrorOptions} [options] `cause`: the `reason` of the signal that aborted
     */
    constructor({ code, message, detail }: {
        code: ErrorCode;
        message: string;
        detail?: unknown;
    }, options?: ErrorOptions);
}
/**
 * @param {AbortSignal | null} [signal] that did it
 * @param {unknown} [detail]
 */
export declare const aborted: (signal?: AbortSignal | null, detail?: unknown) => ForetokenError;
/**
 * @param {string} option
 * @param {unknown} given
 * @param {string} allowed in words
 */
export declare function badOption(option: string, given: unknown, allowed: string): ForetokenError;
/** @param {unknown} value @returns {string} JSON where it can be */
export declare function inWords(value: unknown): string;
