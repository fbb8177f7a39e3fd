import type { FromWorker, ToWorker } from "./protocol.js";
export type Spawned = {
    postMessage: (message: ToWorker, transfer: Transferable[]) => void;
    /**
     * of one that is shared: leaves it
     */
    terminate: () => void;
    onmessage: ((event: MessageEvent<FromWorker>) => any) | null;
};
/** @import { FromShared, FromWorker, ToWorker } from "./protocol.js" */
/**
 * @typedef {object} Spawned a worker as the engine uses it
 * @property {(message: ToWorker, transfer: Transferable[]) => void} postMessage
 * @property {() => void} terminate of one that is shared: leaves it
 * @property {((event: MessageEvent<FromWorker>) => any) | null} onmessage
 */
/**
 * What differs outside of pages; node.js says what it is there.
 * @type {{ spawn: typeof spawn, base: () => string | undefined, cache: boolean }}
 */
export declare const place: {
    spawn: typeof spawn;
    base: () => string | undefined;
    cache: boolean;
};
/**
 * A worker with the engine in it. Throws where none may be started.
 * @param {string | ((name?: string) => Worker | SharedWorker) | undefined} where the option `worker`
 * @param {string | undefined} name pages that give the same one share the worker
 * @param {(reason: string) => void} failed hears that it could not be started after all
 * @returns {Spawned}
 */
export declare function spawn(where: string | ((name?: string) => Worker | SharedWorker) | undefined, name: string | undefined, failed: (reason: string) => void): Spawned;
