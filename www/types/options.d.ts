import type { EmbedOptions, GenerateOptions, LoadOptions, Model } from "./api.js";
import type { Loading } from "./protocol.js";
/**
 * @import { EmbedOptions, GenerateOptions, LoadOptions, Model } from "./api.js"
 * @import { Loading, Source } from "./protocol.js"
 */
/**
 * How to load, or to inspect, a model. Throws where that cannot be.
 * @param {"load" | "inspect"} method
 * @param {Model} model
 * @param {LoadOptions} [options]
 */
export declare function readLoad(method: "load" | "inspect", model: Model, options?: LoadOptions): {
    args: Loading;
    onProgress: ((progress: import("./api.js").Progress) => void) | undefined;
    signal: AbortSignal | undefined;
    spawn: (/** @type {(reason: string) => void} */ failed: (reason: string) => void) => import("./spawn.js").Spawned;
};
/**
 * The options that say something: null stands for the default.
 * @template {LoadOptions | EmbedOptions | Pick<GenerateOptions, "signal" | "onProgress">} T
 * @param {T | null} [options]
 * @returns {T}
 */
export declare function checked<T extends LoadOptions | EmbedOptions | Pick<GenerateOptions, "signal" | "onProgress">>(options?: T | null): T;
