/**
 * The window between the disk worker, which has the files, and the forward worker, which has the bytes: one transfer at a time, in chunks.
 * Shared memory; each side rings the other's bell after a change.
 *
 * ```
 * | 16 words | bytes of the transfer f64 | window: WINDOW_CHUNKS × CHUNK_BYTES |
 * ```
 * The disk worker offers a transfer; the forward worker accepts or refuses it, and may refuse it until it is over. A transfer out (to a file) is
 * over when the disk worker has taken all chunks; one in (from a file) when the forward worker has seen whether the checksum was right.
 */
const WORD = { state: 0, direction: 1, slot: 2, filled: 3, drained: 4, mail: 5 } as const;
const HEAD_BYTES = 72;
const BYTES_AT = 64;

export const LINK_STATE = {
  idle: 0,
  /** By the disk worker: slot, direction and, on the way in, bytes are there. */
  offered: 1,
  /** By the forward worker: on the way out, bytes are there. */
  accepted: 2,
  /** By the forward worker: there is no such slot, no memory, or no use for it any more. The disk worker makes it idle. */
  refused: 3,
  /** By the disk worker, on the way in: all bytes are in the forward worker's memory and right, or not. The forward worker makes it idle. */
  committed: 4,
  aborted: 5,
} as const;
export const DIRECTION = { out: 1, in: 2 } as const;

/** Chosen: copied in some 20 µs, which no step notices. */
export const CHUNK_BYTES = 256 * 1024;
/** Chosen: 16 MiB, what a disk reads during a step of some milliseconds, in which the forward worker takes nothing. */
export const WINDOW_CHUNKS = 64;
export const LINK_BYTES = HEAD_BYTES + WINDOW_CHUNKS * CHUNK_BYTES;

/** Either end. */
export class DiskLink {
  private readonly words: Int32Array;
  private readonly bytesOf: Float64Array;
  private readonly chunks: Uint8Array[];

  constructor(buffer: SharedArrayBuffer) {
    this.words = new Int32Array(buffer, 0, 16);
    this.bytesOf = new Float64Array(buffer, BYTES_AT, 1);
    this.chunks = Array.from(
      { length: WINDOW_CHUNKS },
      (_, i) => new Uint8Array(buffer, HEAD_BYTES + i * CHUNK_BYTES, CHUNK_BYTES),
    );
  }

  get state(): number {
    return Atomics.load(this.words, WORD.state);
  }

  get direction(): number {
    return this.words[WORD.direction];
  }

  get slot(): number {
    return this.words[WORD.slot];
  }

  /** Of the whole transfer. */
  get totalBytes(): number {
    return this.bytesOf[0];
  }

  get chunkCount(): number {
    return Math.ceil(this.totalBytes / CHUNK_BYTES);
  }

  /** Chunks that were put into the window since the transfer began, and taken out of it. */
  get filled(): number {
    return Atomics.load(this.words, WORD.filled);
  }

  get drained(): number {
    return Atomics.load(this.words, WORD.drained);
  }

  /** Disk worker. `totalBytes`: 0 on the way out, where it is not known yet. */
  offer(direction: number, slot: number, totalBytes: number): void {
    if (this.state !== LINK_STATE.idle) throw new Error('a transfer is offered while another one runs');
    this.words[WORD.direction] = direction;
    this.words[WORD.slot] = slot;
    this.bytesOf[0] = totalBytes;
    Atomics.store(this.words, WORD.filled, 0);
    Atomics.store(this.words, WORD.drained, 0);
    Atomics.store(this.words, WORD.state, LINK_STATE.offered);
  }

  /** Forward worker. */
  accept(totalBytes: number): void {
    this.bytesOf[0] = totalBytes;
    this.move(LINK_STATE.offered, LINK_STATE.accepted);
  }

  /** Returns false when the state was another one meanwhile. */
  move(from: number, to: number): boolean {
    return Atomics.compareExchange(this.words, WORD.state, from, to) === from;
  }

  /** The next chunk to fill; null: all are, or the window is full. */
  chunkToFill(): Uint8Array | null {
    const { filled } = this;
    if (filled >= this.chunkCount || filled - this.drained >= WINDOW_CHUNKS) return null;
    return this.chunk(filled);
  }

  chunkFilled(): void {
    Atomics.add(this.words, WORD.filled, 1);
  }

  /** The next chunk to take; null: none is there. */
  chunkToDrain(): Uint8Array | null {
    const { drained } = this;
    return drained < this.filled ? this.chunk(drained) : null;
  }

  chunkDrained(): void {
    Atomics.add(this.words, WORD.drained, 1);
  }

  /** Where chunk `index` begins in the state. */
  byteAt(index: number): number {
    return index * CHUNK_BYTES;
  }

  /** Messages that the disk worker has posted to the overlap worker so far. */
  get mail(): number {
    return Atomics.load(this.words, WORD.mail);
  }

  mailPosted(): void {
    Atomics.add(this.words, WORD.mail, 1);
  }

  private chunk(index: number): Uint8Array {
    const lengthBytes = Math.min(CHUNK_BYTES, this.totalBytes - index * CHUNK_BYTES);
    return this.chunks[index % WINDOW_CHUNKS].subarray(0, lengthBytes);
  }
}
