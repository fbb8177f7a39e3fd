import type { Message } from "./api.js";
export type Saved = {
    messages: Message[];
    options: object;
    tokens: number[];
    tag: string;
};
export type SavedChatInfo = {
    name: string;
    messages: number;
    bytes: number;
};
/**
 * Saves a conversation under a name, in place of another one; as long as that lasts, the other one is there.
 * @param {string} name
 * @param {Omit<Saved, "tokens" | "tag">} said
 * @param {(write: (layer: number, bytes: Uint8Array<ArrayBuffer>) => Promise<void>) => Promise<number[]>} layers gives what is cached of it
 */
export declare function save(name: string, said: Omit<Saved, "tokens" | "tag">, layers: (write: (layer: number, bytes: Uint8Array<ArrayBuffer>) => Promise<void>) => Promise<number[]>): Promise<number>;
/**
 * What was said in a conversation. Rejects with `not-found`.
 * @param {string} name
 * @param {(saved: Saved, read: (layer: number) => Promise<Uint8Array>) => Promise<boolean>} restore takes what was cached of it
 */
export declare function restore(name: string, restore: (saved: Saved, read: (layer: number) => Promise<Uint8Array>) => Promise<boolean>): Promise<{
    messages: Message[];
    options: object;
    cached: number;
}>;
/** The conversations that are saved here. @returns {Promise<SavedChatInfo[]>} */
export declare function list(): Promise<SavedChatInfo[]>;
/** Whether there was one, which is gone now. @param {string} name */
export declare function remove(name: string): Promise<boolean>;
