/**
 * Items that wait for their reader, or a reader that waits for items.
 * @template T
 */
export declare class Queue<T> {
    #private;
    /** @param {T} item of no interest after the end */
    push(item: T): void;
    /** Forgets what waits. */
    clear(): void;
    /** Ends it, once. @param {unknown} [error] what a reader hears after the last item */
    end(error?: unknown): void;
    /** @returns {Promise<T | undefined>} the next item; undefined at the end */
    shift(): Promise<T | undefined>;
}
