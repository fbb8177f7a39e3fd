/**
 * Files in the browser's private file system (OPFS) that end with the SHA-256 of what stands before it: none is trusted as it
 * lies there, not after a crash, not after a full disk.
 */
/** Bytes of the hash. */
export declare const SEAL = 32;
/**
 * Writes a sealed file, which appears under its name only when it is whole.
 * @param {FileSystemDirectoryHandle} folder @param {string} name @param {Uint8Array<ArrayBuffer>} bytes
 */
export declare function write(folder: FileSystemDirectoryHandle, name: string, bytes: Uint8Array<ArrayBuffer>): Promise<void>;
/** What was sealed; null when a bit of it is not as it was. @param {File} file */
export declare function unseal(file: File): Promise<Uint8Array<ArrayBuffer> | null>;
/** @param {Uint8Array<ArrayBuffer>} bytes */
export declare function sha256(bytes: Uint8Array<ArrayBuffer>): Promise<Uint8Array<ArrayBuffer>>;
/** @param {Uint8Array} bytes */
export declare function hex(bytes: Uint8Array): string;
/** @param {any} folder @returns {Promise<[string, any][]>} */
export declare function entries(folder: any): Promise<[string, any][]>;
/** Whether it is gone; what is open elsewhere stays. @param {FileSystemDirectoryHandle} folder @param {string} name */
export declare function removeFrom(folder: FileSystemDirectoryHandle, name: string): Promise<boolean>;
/** @param {FileSystemDirectoryHandle} folder @param {string} name */
export declare function readFile(folder: FileSystemDirectoryHandle, name: string): Promise<File>;
