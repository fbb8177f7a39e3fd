/* tslint:disable */
/* eslint-disable */

/**
 * Returns `{picture, means, lookaheads}`: an SVG of one run of distributed speculation, the mean latencies `{plain, si, dsi, pearl}`, and
 * the lookaheads. Latencies are in milliseconds; sequential speculation has its best lookahead.
 *
 * # Errors
 * `bad-option`.
 */
export function simulateCell(target_latency: number, drafter_latency: number, acceptance: number, lookahead: number, sp_degree: number, tokens: number): any;

/**
 * Returns the four heatmaps for `sp_degree` servers as SVG, `columns` of them in a row.
 *
 * # Errors
 * `bad-option`.
 */
export function simulateHeatmaps(sp_degree: number, tokens: number, columns: number): string;

/**
 * Stores the message of a panic: otherwise JavaScript only gets `unreachable`.
 */
export function start(): void;

export type InitInput = RequestInfo | URL | Response | BufferSource | WebAssembly.Module;

export interface InitOutput {
    readonly memory: WebAssembly.Memory;
    readonly simulateCell: (a: number, b: number, c: number, d: number, e: number, f: number) => [number, number, number];
    readonly simulateHeatmaps: (a: number, b: number, c: number) => [number, number, number, number];
    readonly start: () => void;
    readonly __wbindgen_exn_store: (a: number) => void;
    readonly __externref_table_alloc: () => number;
    readonly __wbindgen_externrefs: WebAssembly.Table;
    readonly __externref_table_dealloc: (a: number) => void;
    readonly __wbindgen_free: (a: number, b: number, c: number) => void;
    readonly __wbindgen_start: () => void;
}

export type SyncInitInput = BufferSource | WebAssembly.Module;

/**
 * Instantiates the given `module`, which can either be bytes or
 * a precompiled `WebAssembly.Module`.
 *
 * @param {{ module: SyncInitInput }} module - Passing `SyncInitInput` directly is deprecated.
 *
 * @returns {InitOutput}
 */
export function initSync(module: { module: SyncInitInput } | SyncInitInput): InitOutput;

/**
 * If `module_or_path` is {RequestInfo} or {URL}, makes a request and
 * for everything else, calls `WebAssembly.instantiate` directly.
 *
 * @param {{ module_or_path: InitInput | Promise<InitInput> }} module_or_path - Passing `InitInput` directly is deprecated.
 *
 * @returns {Promise<InitOutput>}
 */
export default function __wbg_init (module_or_path?: { module_or_path: InitInput | Promise<InitInput> } | InitInput | Promise<InitInput>): Promise<InitOutput>;
