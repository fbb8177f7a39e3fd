import type { Loading, Source } from "./protocol.js";
export type Work = Omit<Loading, "assistant"> & {
    index: number;
    context?: number;
};
export type Hired = {
    port: MessagePort;
    /**
     * ends it
     */
    dismiss: () => void;
    /**
     * fulfils with the reason when it could not be started
     */
    failed: Promise<string>;
};
/** All of them, as the engine's module wants them (src/wasm/parallel.rs: `Workers`). */
export declare class Crew {
    #private;
    work: Omit<Loading, "assistant" | "model"> & {
        target: {
            model: Source;
        };
        assistant: {
            model?: Source;
        };
    };
    hire: () => Promise<Hired>;
    tell: (event: any) => void;
    /**
     * @param {Omit<Loading, "model" | "assistant"> & { target: { model: Source }, assistant: { model?: Source } }} work what workers have to know
     *   to load a model
     * @param {() => Promise<Hired>} hire asks the page for a worker
     * @param {(event: any) => void} tell hears of the progress of the first target and of the draft model
     */
    constructor(work: Omit<Loading, "model" | "assistant"> & {
        target: {
            model: Source;
        };
        assistant: {
            model?: Source;
        };
    }, hire: () => Promise<Hired>, tell: (event: any) => void);
    /**
     * Loads the models; rejects with what a target's worker throws.
     * @param {boolean} withDrafter
     * @param {number} context positions of the target's cache
     */
    start(withDrafter: boolean, context: number): Promise<{
        device: any;
        failed: any;
    }>;
    /** @param {object} order a text begins: whoever is not here gets another worker */
    begin(order: object): void;
    /** @param {number} to @param {object} order */
    order(to: number, order: object): void;
    report(): Promise<{
        text: number | null;
        report: object;
    } | undefined>;
    /** What a target, and the draft model, takes of the GPU. */
    memory(): {
        target: any;
        draft: any;
    };
    /** The sums of what all of them asked of their devices. */
    counters(): Promise<Record<string, number>>;
}
