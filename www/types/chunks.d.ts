export type Chunk = {
    /**
     * bytes, counted from where the chunk begins
     */
    read: (start: number, end: number) => Promise<Uint8Array<ArrayBuffer> | null>;
};
/** @implements {Chunk} */
export declare class DiskChunk implements Chunk {
    blob: Blob;
    /** @param {Blob} blob */
    constructor(blob: Blob);
    /** @param {number} start @param {number} end */
    read(start: number, end: number): Promise<Uint8Array<ArrayBuffer> | null>;
}
/** @implements {Chunk} */
export declare class MemoryChunk implements Chunk {
    #private;
    /** @param {Uint8Array<ArrayBuffer>} bytes */
    constructor(bytes: Uint8Array<ArrayBuffer>);
    get unread(): number;
    /** @param {number} start @param {number} end */
    read(start: number, end: number): Promise<Uint8Array<ArrayBuffer> | null>;
    forget(): void;
}
/** The chunks of a model that no disk holds; when too much of them waits, the oldest are forgotten. */
export declare class Memory {
    #private;
    /** @param {Uint8Array<ArrayBuffer>} bytes */
    hold(bytes: Uint8Array<ArrayBuffer>): MemoryChunk;
    clear(): void;
}
