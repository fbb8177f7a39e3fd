export type DownloadProgress = {
    phase: "download";
    model: "target" | "assistant";
    file: string;
    loaded: number;
    total: number;
};
export type TransferOptions = {
    /**
     * sent along
     */
    headers?: Record<string, string>;
    /**
     * which model it is, for progress
     */
    role: "target" | "assistant";
    signal: AbortSignal;
    onProgress: (progress: DownloadProgress) => void;
};
/** @typedef {{ phase: "download", model: "target" | "assistant", file: string, loaded: number, total: number }} DownloadProgress */
/**
 * @typedef {object} TransferOptions
 * @property {Record<string, string>} [headers] sent along
 * @property {"target" | "assistant"} role which model it is, for progress
 * @property {AbortSignal} signal
 * @property {(progress: DownloadProgress) => void} onProgress
 */
/** Milliseconds. */
export declare const patience: {
    /** Without a byte, or without an answer: then a request counts as cut. */
    silence: number;
    /** Between one try and the next, about. */
    pauses: number[];
    /** What a server may ask for instead, at most. */
    retryAfter: number;
};
/**
 * An error in the shape in which all errors of the engine travel.
 * @param {import("./error.js").ErrorCode} code
 * @param {string} message
 * @param {unknown} [detail]
 */
export declare function failure(code: import("./error.js").ErrorCode, message: string, detail?: unknown): {
    code: import("./error.js").ErrorCode;
    message: string;
    detail: unknown;
};
/** What comes from one server for one model. */
export declare class Transfer {
    #private;
    base: string;
    headers: Record<string, string>;
    role: "assistant" | "target";
    signal: AbortSignal;
    onProgress: (progress: DownloadProgress) => void;
    /** @type {Map<string, number>} bytes here, by file */
    loaded: Map<string, number>;
    /** @type {Map<string, number>} bytes reported, by file */
    shown: Map<string, number>;
    /** Whether the server ever answered. */
    answered: boolean;
    /**
     * @param {string} base the folder; its query, such as a signature, goes along with each file
     * @param {TransferOptions} options
     */
    constructor(base: string, { headers, role, signal, onProgress }: TransferOptions);
    /** @param {string} file */
    address(file: string): string;
    /** @param {string} file @param {number} [start] @param {number} [end] @param {AbortSignal} [signal] */
    fetch(file: string, start?: number, end?: number, signal?: AbortSignal): Promise<Response>;
    /** A chunk: exactly its bytes. @param {string} file @param {Response} response @param {number} start where it begins @param {number} total */
    chunk(file: string, response: Response, start: number, total: number): Promise<Uint8Array<ArrayBuffer>>;
    /**
     * All chunks, one after the other.
     * @param {string} file @param {Response} response @param {(chunk: Uint8Array<ArrayBuffer>) => Promise<void>} take
     * @returns {Promise<number>} bytes in all
     */
    whole(file: string, response: Response, take: (chunk: Uint8Array<ArrayBuffer>) => Promise<void>): Promise<number>;
    /** @param {string} file @param {number} more @param {number} total @param {boolean} [silent] */
    report(file: string, more: number, total: number, silent?: boolean): void;
    /** @template T @param {string} file @param {() => Promise<T>} attempt @returns {Promise<T>} */
    retry<T>(file: string, attempt: () => Promise<T>): Promise<T>;
}
/** Whether it has the shape of {@link failure}; a DOMException has a code too, but a number. @param {any} error */
export declare function isFailure(error: any): boolean;
/** Bytes of a chunk. @param {number} total @param {number} index */
export declare function chunkLength(total: number, index: number): number;
/**
 * What an answer says of the file: `total` is null where the server knows no Range, or does not say.
 * @param {Response} response
 */
export declare function describe({ status, headers }: Response): {
    absent: boolean;
    total: number | null;
    version: string | null;
};
/** Lets go of an answer that nobody reads. @param {Response} response */
export declare function discard({ body }: Response): void;
