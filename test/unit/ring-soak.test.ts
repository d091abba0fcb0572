import { fileURLToPath } from 'node:url';
import { isMainThread, Worker, workerData } from 'node:worker_threads';
import t from 'tap';
import { DOORBELL_BYTES, Doorbell } from '../../src/shared/doorbell.js';
import { RingConsumer, RingProducer, ringBytes } from '../../src/shared/ring.js';
import { RING_HEAD_BYTE, RING_TAIL_BYTE } from '../../src/shared/ring-layout.js';

/** Small, so that the ring is full and empty thousands of times and its counters pass the edge early. */
const CAPACITY = 4096;
const RECORDS = 80_000;
/** Longest wait for the other thread before the test gives up, ms. */
const PATIENCE_MS = 20_000;

interface SoakData {
  ring: SharedArrayBuffer;
  /** Rung by the producer after a record, and by the consumer after it made room. */
  filled: SharedArrayBuffer;
  freed: SharedArrayBuffer;
}

function checksum(type: number, payload: Int32Array, at: number, count: number): number {
  let sum = type;
  for (let i = 0; i < count; i++) sum = (Math.imul(sum, 31) + payload[at + i]) | 0;
  return sum;
}

/** Length of the n-th record in words, of which the last is the checksum: mixed, the largest legal one among them. */
function lengthOf(n: number): number {
  const max = (CAPACITY / 8 - 8) / 4;
  return 1 + ((Math.imul(n, 0x9e3779b1) >>> 8) % max);
}

function produce({ ring, filled, freed }: SoakData): void {
  const producer = new RingProducer(ring);
  const bell = new Doorbell(filled);
  const room = new Doorbell(freed);
  for (let n = 1; n <= RECORDS; n++) {
    const length = lengthOf(n);
    for (;;) {
      const seen = room.read();
      const at = producer.reserve(n, length);
      if (at >= 0) {
        const words = producer.payloadWords;
        for (let i = 0; i < length - 1; i++) words[at + i] = n ^ i;
        words[at + length - 1] = checksum(n, words, at, length - 1);
        producer.commit();
        bell.ring();
        break;
      }
      if (!room.wait(seen, PATIENCE_MS)) throw new Error(`no room for record ${n}`);
    }
  }
}

async function consume({ ring, filled, freed }: SoakData): Promise<void> {
  const consumer = new RingConsumer(ring);
  const bell = new Doorbell(filled);
  const room = new Doorbell(freed);
  for (let n = 1; n <= RECORDS; ) {
    const seen = bell.read();
    const record = consumer.peek();
    if (record === null) {
      await bell.waitAsync(seen);
      continue;
    }
    const { type, at, lengthWords } = record;
    if (type !== n || lengthWords !== lengthOf(n)) throw new Error(`record ${n}: type ${type}, ${lengthWords} words`);
    const last = at + lengthWords - 1;
    const sum = checksum(type, consumer.payloadWords, at, lengthWords - 1);
    if (consumer.payloadWords[last] !== sum) throw new Error(`record ${n} is torn`);
    consumer.release();
    room.ring();
    n++;
  }
  if (consumer.peek() !== null) throw new Error('a record too many');
}

async function soak(counter: number): Promise<number> {
  const ring = new SharedArrayBuffer(ringBytes(CAPACITY));
  const words = new Int32Array(ring);
  words[RING_TAIL_BYTE >> 2] = counter | 0;
  words[RING_HEAD_BYTE >> 2] = counter | 0;
  const data: SoakData = {
    ring,
    filled: new SharedArrayBuffer(DOORBELL_BYTES),
    freed: new SharedArrayBuffer(DOORBELL_BYTES),
  };
  const worker = new Worker(fileURLToPath(import.meta.url), { workerData: data });
  const failed = new Promise<never>((_, reject) => worker.once('error', reject));
  try {
    await Promise.race([consume(data), failed]);
  } finally {
    await worker.terminate();
  }
  return Atomics.load(words, RING_HEAD_BYTE >> 2);
}

if (isMainThread) {
  t.test('two threads: every record arrives once, whole and in order, past 2^31', async (t) => {
    t.ok((await soak(2 ** 31 - 8 * CAPACITY)) < 0, 'the counters have passed the edge');
  });
  t.test('two threads, past 2^32', async (t) => {
    t.ok((await soak(-8 * CAPACITY)) > 0, 'the counters have passed the edge');
  });
} else {
  produce(workerData as SoakData);
}
