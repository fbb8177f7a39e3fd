/**
 * A chunk as its readers have it: from disk as often as they like, from memory once, because a model is as large as the
 * GPU's memory. `read` gives null for what is no longer there; then the chunk is fetched again.
 */
import { CHUNK } from "./cache.js";

export type Chunk = {
  /** bytes, counted from where the chunk begins */
  read: (start: number, end: number) => Promise<Uint8Array<ArrayBuffer> | null>;
};

/** Bytes in memory that wait for a reader, at most: more only where a file's tensors lie in quite another order than they are read. */
const MOST_UNREAD = 16 * CHUNK;
/** So few bytes of a chunk, such as its norms, stay in any case: to forget them frees nothing and costs a whole chunk. */
const FEW = CHUNK / 64;

export class DiskChunk implements Chunk {
  declare blob: Blob;

  constructor(blob: Blob) {
    this.blob = blob;
  }

  async read(start: number, end: number) {
    try {
      return new Uint8Array(await this.blob.slice(start, end).arrayBuffer());
    } catch {
      // It was deleted meanwhile, by a person or by the browser.
      return null;
    }
  }
}

export class MemoryChunk implements Chunk {
  /** Data that was not read yet. */
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

/** A small part does not keep the whole buffer alive. */
function shrink(bytes: Uint8Array<ArrayBuffer>) {
  return 2 * bytes.length < bytes.buffer.byteLength ? bytes.slice() : bytes;
}

/** The chunks of a model that no disk holds; when too much of them waits, the oldest are forgotten. */
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
