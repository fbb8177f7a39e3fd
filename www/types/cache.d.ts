export type Meta = {
    /**
     * as the user named it
     */
    model: string;
    /**
     * what the file's name was added to, without its query
     */
    url: string;
    /**
     * bytes
     */
    total: number;
    /**
     * the server's name for these bytes
     */
    version: string | null;
    /**
     * whether the server has no such file
     */
    absent: boolean;
    /**
     * which chunks belong to this version
     */
    tag: string;
};
export type CachedModelInfo = {
    model: string;
    url: string;
    bytes: number;
    complete: boolean;
};
/**
 * @typedef {object} Meta What the server said last of a file.
 * @property {string} model as the user named it
 * @property {string} url what the file's name was added to, without its query
 * @property {number} total bytes
 * @property {string | null} version the server's name for these bytes
 * @property {boolean} absent whether the server has no such file
 * @property {string} tag which chunks belong to this version
 */
/** @typedef {{ model: string, url: string, bytes: number, complete: boolean }} CachedModelInfo
 *   `model` and `url`: without a query; `bytes`: on disk; `complete`: whether all of each file that was begun is here */
/** Bytes per chunk: large enough to amortise a round trip, small enough to repeat after a cut. */
export declare const CHUNK: number;
/** The cache as one load sees it; after the first failure that load keeps nothing more. */
export declare class Cache {
    #private;
    onWarning: (text: string) => void;
    failed: boolean;
    /** Bytes that are still to be kept. */
    pending: number;
    /** @param {(text: string) => void} onWarning hears why something is not kept, at most once */
    constructor(onWarning: (text: string) => void);
    /**
     * A model, locked until its `close()`; null where the browser keeps nothing.
     * @param {string} name
     * @param {string} url
     */
    model(name: string, url: string): Promise<{
        close: () => Promise<void>;
        file: (file: string) => CachedFile;
        names: () => Promise<string[]>;
    } | null>;
    /** Says beforehand when there is no room for what is about to come. @param {number} bytes that are to be kept, besides the others */
    expect(bytes: number): Promise<void>;
    /** @param {unknown} error */
    fail(error: unknown): Promise<void>;
}
/** One file of a model. */
export declare class CachedFile {
    #private;
    cache: Cache;
    root: FileSystemDirectoryHandle;
    path: string[];
    from: {
        model: string;
        url: string;
    };
    /** @type {Meta | null} */
    meta: Meta | null;
    /**
     * @param {Cache} cache
     * @param {FileSystemDirectoryHandle} root
     * @param {string[]} path
     * @param {{ model: string, url: string }} from
     */
    constructor(cache: Cache, root: FileSystemDirectoryHandle, path: string[], from: {
        model: string;
        url: string;
    });
    /** @param {boolean} [create] @returns {Promise<FileSystemDirectoryHandle>} */
    folder(create?: boolean): Promise<FileSystemDirectoryHandle>;
    /**
     * Does the work while no other tab does the same.
     * @template T @param {number} index @param {AbortSignal} signal @param {() => Promise<T>} work @returns {Promise<T>}
     */
    lock<T>(index: number, signal: AbortSignal, work: () => Promise<T>): Promise<T>;
    /** What is known of the file; null when nothing is. */
    known(): Promise<Meta | null>;
    /** @param {number} bytes of the file that are about to come */
    expect(bytes: number): Promise<void>;
    /** Begins a version of the file; chunks of another go. None counts before its length is written down. @param {string | null} version */
    begin(version: string | null): Promise<void>;
    /** Forgets the file. */
    drop(): Promise<void>;
    /** Remembers whether the server has the file; what is here of it stays. @param {boolean} absent */
    mark(absent: boolean): Promise<void>;
    /** Writes down what is known of the file. @param {Partial<Meta>} more */
    describe(more: Partial<Meta>): Promise<void>;
    /** Which chunks seem to be here. @returns {Promise<Set<number>>} */
    indices(): Promise<Set<number>>;
    /** A chunk, if every bit of it is as it was written; it stays on disk. @param {number} index @param {number} length @returns {Promise<Blob | null>} */
    get(index: number, length: number): Promise<Blob | null>;
    /** Keeps a chunk; null where that cannot be. @param {number} index @param {Uint8Array<ArrayBuffer>} bytes @returns {Promise<Blob | null>} */
    put(index: number, bytes: Uint8Array<ArrayBuffer>): Promise<Blob | null>;
}
/** The models that are kept. @returns {Promise<CachedModelInfo[]>} */
export declare function list(): Promise<CachedModelInfo[]>;
/**
 * Deletes a model, by its name or URL; all models without one. False when there was none, or when one is being loaded just now.
 * @param {string | URL} [model]
 */
export declare function remove(model?: string | URL): Promise<boolean>;
/** Whether a model is named by where it lies, and not as on the Hub. @param {string} model */
export declare const isAddress: (model: string) => boolean;
/**
 * An address as it may be kept and shown. Queries hold signatures, which are secret, and new each time although the files
 * are the same.
 * @param {string} url
 */
export declare function withoutQuery(url: string): string;
