import { Memory } from "./chunks.js";
import { Transfer } from "./transfer.js";
export type Chunk = import("./chunks.js").Chunk;
export type Files = import("./hub.js").Files;
export type RemoteFile = {
    total: number;
    version: string | null;
    chunks: Map<number, Promise<Chunk>>;
    /**
     * requests for chunks
     */
    coming: Set<Promise<unknown>>;
    /**
     * chunks that count as loaded
     */
    counted: Set<number>;
    kept: import("./cache.js").CachedFile | null;
    /**
     * whether the server gives parts of it, as far as is known
     */
    ranged: boolean;
};
/** @implements {Files} */
export declare class Remote implements Files {
    name: string;
    url: string;
    cache: import("./cache.js").Cache | undefined;
    pinned: boolean;
    only: string | undefined;
    listing: Transfer | null;
    signal: AbortSignal;
    transfer: Transfer;
    /** @type {Map<string, Promise<RemoteFile | null>>} */
    opened: Map<string, Promise<RemoteFile | null>>;
    /** Whether the server was found out of reach while the cache could do without it. */
    away: boolean;
    /** @type {ReturnType<import("./cache.js").Cache["model"]> | undefined} */
    model: ReturnType<import("./cache.js").Cache["model"]> | undefined;
    memory: Memory;
    /**
     * @param {string} name
     * @param {string} base the folder
     * @param {import("./transfer.js").TransferOptions & { cache?: import("./cache.js").Cache, pinned?: boolean, listing?: string, only?: string }} options
     *   `pinned`: whether what the URL names never changes; `listing`: where a Hub lists its files; `only`: the GGUF file that is the model
     */
    constructor(name: string, base: string, { cache, pinned, listing, only, ...options }: import("./transfer.js").TransferOptions & {
        cache?: import("./cache.js").Cache;
        pinned?: boolean;
        listing?: string;
        only?: string;
    });
    /** The names of its files; none where the server cannot be asked for them. @returns {Promise<string[]>} */
    list(): Promise<string[]>;
    /** What is kept of the model. */
    kept(): Promise<{
        close: () => Promise<void>;
        file: (file: string) => import("./cache.js").CachedFile;
        names: () => Promise<string[]>;
    } | null> | undefined;
    /** @param {string} file */
    size(file: string): Promise<number | null>;
    /** @param {string} file @param {number} start @param {number} end */
    read(file: string, start: number, end: number): Promise<Uint8Array<ArrayBuffer>>;
    /** Forgets what was not read, and lets other tabs delete the model, once what is on its way has been kept. */
    close(): Promise<void>;
    /** @param {string} file */
    open(file: string): Promise<RemoteFile | null>;
    /** @param {string} file @returns {Promise<RemoteFile | null>} */
    first(file: string): Promise<RemoteFile | null>;
    /** @param {string} file @param {import("./cache.js").CachedFile} kept @returns {Promise<RemoteFile | null>} */
    resume(file: string, kept: import("./cache.js").CachedFile): Promise<RemoteFile | null>;
    /**
     * What the server has now; null when it is out of reach.
     * @param {string} file @param {boolean} absent whether it had no such file
     */
    ask(file: string, absent: boolean): Promise<{
        absent: boolean;
        total: number | null;
        version: string | null;
    } | null>;
    /**
     * The first request tells the size and brings the first chunk, which for small files is all.
     * @param {string} file @param {import("./cache.js").CachedFile | null} kept @returns {Promise<RemoteFile | null>}
     */
    begin(file: string, kept: import("./cache.js").CachedFile | null): Promise<RemoteFile | null>;
    /**
     * All chunks of a file of which no parts are to be had.
     * @param {string} file @param {RemoteFile} opened @param {Response} response
     */
    whole(file: string, opened: RemoteFile, response: Response): Promise<import("./chunks.js").Chunk[]>;
    /**
     * Fetches such a file again.
     * @param {string} file @param {RemoteFile} opened
     */
    refill(file: string, opened: RemoteFile): void;
    /** @param {RemoteFile} opened @param {number} index @param {Uint8Array<ArrayBuffer>} bytes @returns {Promise<Chunk>} */
    keep({ kept, ranged }: RemoteFile, index: number, bytes: Uint8Array<ArrayBuffer>): Promise<Chunk>;
    /** @param {string} file @param {RemoteFile} opened @param {number} index @param {number} start @param {number} end */
    part(file: string, opened: RemoteFile, index: number, start: number, end: number): Promise<Uint8Array<ArrayBuffer>>;
    /** @param {string} file @param {RemoteFile} opened @param {number} index @returns {Promise<Chunk>} */
    chunk(file: string, opened: RemoteFile, index: number): Promise<Chunk>;
    /** @param {RemoteFile} opened @param {number} index @param {Promise<Chunk>} chunk */
    set({ chunks }: RemoteFile, index: number, chunk: Promise<Chunk>): void;
    /** @param {string} file @param {RemoteFile} opened @param {number} index @returns {Promise<Chunk>} */
    obtain(file: string, opened: RemoteFile, index: number): Promise<Chunk>;
    /**
     * A chunk's bytes; null where the server gives no parts of the file.
     * @param {string} file @param {RemoteFile} opened @param {number} index
     */
    download(file: string, opened: RemoteFile, index: number): Promise<Uint8Array<ArrayBuffer> | null>;
    /** @param {string} file */
    changed(file: string): {
        code: import("./error.js").ErrorCode;
        message: string;
        detail: unknown;
    };
    /** @template T @param {import("./cache.js").CachedFile} kept @param {number} index @param {() => Promise<T>} work @returns {Promise<T>} */
    alone<T>(kept: import("./cache.js").CachedFile, index: number, work: () => Promise<T>): Promise<T>;
}
