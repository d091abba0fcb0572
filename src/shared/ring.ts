import {
  RECORD_ALIGN_BYTES,
  RECORD_HEADER_BYTES,
  RECORD_MAX_SHARE,
  RECORD_TYPE_PADDING,
  RING_DATA_BYTE,
  RING_HEAD_BYTE,
  RING_TAIL_BYTE,
} from './ring-layout.js';

const TAIL = RING_TAIL_BYTE >> 2;
const HEAD = RING_HEAD_BYTE >> 2;
const DATA = RING_DATA_BYTE >> 2;
const HEADER_WORDS = RECORD_HEADER_BYTES >> 2;

/** Bytes of the SharedArrayBuffer that holds a ring of `capacityBytes` (a power of two). */
export function ringBytes(capacityBytes: number): number {
  assertCapacity(capacityBytes);
  return RING_DATA_BYTE + capacityBytes;
}

/** Smallest legal capacity, in bytes, of a ring that must take payloads of `payloadBytes`. */
export function ringCapacityFor(payloadBytes: number): number {
  const record = recordBytes(payloadBytes) * RECORD_MAX_SHARE;
  let capacity = 1024;
  while (capacity < record) capacity *= 2;
  return capacity;
}

function assertCapacity(capacityBytes: number): void {
  const isPowerOfTwo = capacityBytes > 0 && (capacityBytes & (capacityBytes - 1)) === 0;
  // 2^30 keeps (tail - head) | 0 positive, with room to spare.
  if (!isPowerOfTwo || capacityBytes < 64 || capacityBytes > 2 ** 30) {
    throw new RangeError(`ring capacity must be a power of two from 64 to 2^30 bytes, got ${capacityBytes}`);
  }
}

function recordBytes(payloadBytes: number): number {
  return (RECORD_HEADER_BYTES + payloadBytes + RECORD_ALIGN_BYTES - 1) & -RECORD_ALIGN_BYTES;
}

/** State common to both ends. Each end caches the other's counter and re-reads it only when it must. */
abstract class RingEnd {
  protected readonly words: Int32Array;
  protected readonly capacityBytes: number;
  protected readonly mask: number;

  constructor(buffer: SharedArrayBuffer) {
    this.capacityBytes = buffer.byteLength - RING_DATA_BYTE;
    assertCapacity(this.capacityBytes);
    this.words = new Int32Array(buffer);
    this.mask = this.capacityBytes - 1;
  }

  /** Largest payload that a record may carry, bytes. */
  get maxPayloadBytes(): number {
    return this.capacityBytes / RECORD_MAX_SHARE - RECORD_HEADER_BYTES;
  }

  /** Bytes between tail and head now. Exact for neither end while the other moves; for gauges. */
  get usedBytes(): number {
    return (Atomics.load(this.words, TAIL) - Atomics.load(this.words, HEAD)) | 0;
  }
}

/** The writing end. One per ring, in one thread. */
export class RingProducer extends RingEnd {
  private tail: number;
  private cachedHead: number;

  constructor(buffer: SharedArrayBuffer) {
    super(buffer);
    this.tail = Atomics.load(this.words, TAIL);
    this.cachedHead = Atomics.load(this.words, HEAD);
  }

  /**
   * Reserves room for `payloadWords` 32-bit words, lets `write` fill them, publishes. `write` gets the ring's words and the
   * index of the payload's first word. Returns false, with nothing written, when the ring is full.
   * @throws RangeError when the payload may never fit.
   */
  push(type: number, payloadWords: number, write: (words: Int32Array, at: number) => void): boolean {
    const start = this.reserve(type, payloadWords);
    if (start < 0) return false;
    write(this.words, start);
    this.commit();
    return true;
  }

  /**
   * First half of a push without a closure: the payload's word index in `words`, or −1 when the ring is full.
   * The caller fills exactly `payloadWords` words and calls `commit`.
   */
  reserve(type: number, payloadWords: number): number {
    const payloadBytes = payloadWords * 4;
    if (payloadBytes > this.maxPayloadBytes) {
      throw new RangeError(`record of ${payloadBytes} bytes exceeds the ring's limit of ${this.maxPayloadBytes}`);
    }
    if (type === RECORD_TYPE_PADDING) throw new RangeError('record type 0 is reserved for padding');
    const need = recordBytes(payloadBytes);
    const offset = this.tail & this.mask;
    const toEnd = this.capacityBytes - offset;
    const padding = toEnd < need ? toEnd : 0;
    if (!this.hasRoom(need + padding)) return -1;
    if (padding > 0) {
      const at = DATA + (offset >> 2);
      this.words[at] = padding - RECORD_HEADER_BYTES;
      this.words[at + 1] = RECORD_TYPE_PADDING;
      this.tail = (this.tail + padding) | 0;
    }
    const at = DATA + ((this.tail & this.mask) >> 2);
    this.words[at] = payloadBytes;
    this.words[at + 1] = type;
    this.tail = (this.tail + need) | 0;
    return at + HEADER_WORDS;
  }

  /** Second half: makes every reserved record visible with one store. */
  commit(): void {
    Atomics.store(this.words, TAIL, this.tail);
  }

  /** The ring's words, for filling what `reserve` returned. */
  get payloadWords(): Int32Array {
    return this.words;
  }

  private hasRoom(bytes: number): boolean {
    if (this.capacityBytes - ((this.tail - this.cachedHead) | 0) >= bytes) return true;
    this.cachedHead = Atomics.load(this.words, HEAD);
    return this.capacityBytes - ((this.tail - this.cachedHead) | 0) >= bytes;
  }
}

/** Where a record lies in `words` until `release` is called. One object a consumer, reused. */
export interface RingRecord {
  type: number;
  /** Index of the first payload word. */
  at: number;
  /** Payload length in 32-bit words. */
  lengthWords: number;
}

/** The reading end. One per ring, in one thread. */
export class RingConsumer extends RingEnd {
  private head: number;
  private cachedTail: number;
  private readonly record: RingRecord = { type: 0, at: 0, lengthWords: 0 };

  constructor(buffer: SharedArrayBuffer) {
    super(buffer);
    this.head = Atomics.load(this.words, HEAD);
    this.cachedTail = Atomics.load(this.words, TAIL);
  }

  /** The ring's words; read a record's payload from here. */
  get payloadWords(): Int32Array {
    return this.words;
  }

  /** The oldest unread record, or null. The slot is the producer's again after `release`: copy before any wait. */
  peek(): RingRecord | null {
    for (;;) {
      if (((this.cachedTail - this.head) | 0) === 0) {
        this.cachedTail = Atomics.load(this.words, TAIL);
        if (((this.cachedTail - this.head) | 0) === 0) return null;
      }
      const at = DATA + ((this.head & this.mask) >> 2);
      const payloadBytes = this.words[at];
      const type = this.words[at + 1];
      if (payloadBytes < 0 || payloadBytes > this.capacityBytes) {
        throw new Error(`ring is corrupt: record of ${payloadBytes} bytes at ${this.head}`);
      }
      if (type === RECORD_TYPE_PADDING) {
        this.head = (this.head + payloadBytes + RECORD_HEADER_BYTES) | 0;
        Atomics.store(this.words, HEAD, this.head);
        continue;
      }
      this.record.type = type;
      this.record.at = at + HEADER_WORDS;
      this.record.lengthWords = payloadBytes >> 2;
      return this.record;
    }
  }

  /** Gives the peeked record's room back to the producer. */
  release(): void {
    const at = DATA + ((this.head & this.mask) >> 2);
    this.head = (this.head + recordBytes(this.words[at])) | 0;
    Atomics.store(this.words, HEAD, this.head);
  }
}
