import { failure } from "./transfer.js";
export { failure };
export type Files = {
    /**
     * what a person would call the model in a message
     */
    name: string;
    /**
     * the names of its files; none where they cannot be told
     */
    list: () => Promise<string[]>;
    /**
     * bytes of a file; null when there is no such file
     */
    size: (file: string) => Promise<number | null>;
    /**
     * exactly these bytes
     */
    read: (file: string, start: number, end: number) => Promise<Uint8Array>;
    /**
     * nothing more is read for now
     */
    close?: () => Promise<void>;
};
export type HubOptions = {
    /**
     * the Hub; https://huggingface.co by default
     */
    endpoint?: string;
    /**
     * a branch, tag or commit; `main` by default
     */
    revision?: string;
    /**
     * sent as `Authorization: Bearer`, to Hub ids only
     */
    token?: string;
};
/**
 * @typedef {object} Files What the engine reads a model from.
 * @property {string} name what a person would call the model in a message
 * @property {() => Promise<string[]>} list the names of its files; none where they cannot be told
 * @property {(file: string) => Promise<number | null>} size bytes of a file; null when there is no such file
 * @property {(file: string, start: number, end: number) => Promise<Uint8Array>} read exactly these bytes
 * @property {() => Promise<void>} [close] nothing more is read for now
 */
/**
 * @typedef {object} HubOptions
 * @property {string} [endpoint] the Hub; https://huggingface.co by default
 * @property {string} [revision] a branch, tag or commit; `main` by default
 * @property {string} [token] sent as `Authorization: Bearer`, to Hub ids only
 */
/**
 * The files of a model.
 * @param {string | URL | File[] | FileSystemDirectoryHandle} model
 * @param {HubOptions & import("./transfer.js").TransferOptions & { base?: string, cache?: import("./cache.js").Cache }} options
 *   `base`: what relative URLs start from; `cache`: where downloads are kept
 * @returns {Files}
 */
export declare function openFiles(model: string | URL | File[] | FileSystemDirectoryHandle, options: HubOptions & import("./transfer.js").TransferOptions & {
    base?: string;
    cache?: import("./cache.js").Cache;
}): Files;
