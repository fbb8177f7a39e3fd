/** Downloaded chunks, on disk or in memory. Bytes in memory can be read once, because a model may be larger than the memory. */
import { CHUNK } from "./cache.js";

export type Chunk = {
  /** Reads bytes of the chunk. Null if they are gone; then the chunk is downloaded again. */
  read: (start: number, end: number) => Promise<Uint8Array<ArrayBuffer> | null>;
};

/** Maximum unread bytes in memory. They exceed this only if tensors are read in another order than stored. */
const MOST_UNREAD = 16 * CHUNK;
/** Chunks with at most this many unread bytes stay: dropping them frees little, and costs a download. */
const FEW = CHUNK / 64;

/** A chunk on disk. The user or the browser may delete it. */
export const diskChunk = (blob: Blob): Chunk => ({
  read: (start, end) =>
    blob
      .slice(start, end)
      .arrayBuffer()
      .then(
        (bytes) => new Uint8Array(bytes),
        () => null,
      ),
});

export class MemoryChunk implements Chunk {
  /** Unread parts. */
  #parts: { at: number; bytes: Uint8Array<ArrayBuffer> }[];

  constructor(bytes: Uint8Array<ArrayBuffer>) {
    this.#parts = [{ at: 0, bytes }];
  }

  get unread() {
    return this.#parts.reduce((sum, { bytes }) => sum + bytes.length, 0);
  }

  async read(start: number, end: number) {
    const index = this.#parts.findIndex(({ at, bytes }) => at <= start && end <= at + bytes.length);
    if (index < 0) return null;
    const { at, bytes } = this.#parts[index];
    const rest = [
      { at, bytes: bytes.subarray(0, start - at) },
      { at: end, bytes: bytes.subarray(end - at) },
    ];
    this.#parts.splice(index, 1, ...rest.filter(({ bytes }) => bytes.length).map(({ at, bytes }) => ({ at, bytes: shrink(bytes) })));
    return bytes.slice(start - at, end - at);
  }

  forget() {
    this.#parts = [];
  }
}

/** Copies a small part, so that it does not keep the whole buffer alive. */
function shrink(bytes: Uint8Array<ArrayBuffer>) {
  return 2 * bytes.length < bytes.buffer.byteLength ? bytes.slice() : bytes;
}

/** The chunks of a model in memory. If they are too many, the oldest are dropped. */
export class Memory {
  #chunks: Set<MemoryChunk> = new Set();

  hold(bytes: Uint8Array<ArrayBuffer>) {
    const held = new MemoryChunk(bytes);
    this.#chunks.add(held);
    let sum = 0;
    for (const chunk of this.#chunks) {
      sum += chunk.unread;
      if (!chunk.unread) this.#chunks.delete(chunk);
    }
    for (const chunk of this.#chunks) {
      if (sum <= MOST_UNREAD) break;
      if (chunk.unread <= FEW) continue;
      sum -= chunk.unread;
      chunk.forget();
    }
    return held;
  }

  clear() {
    this.#chunks.clear();
  }
}
