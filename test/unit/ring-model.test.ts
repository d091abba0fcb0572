import fc from 'fast-check';
import t from 'tap';
import { RingConsumer, RingProducer, ringBytes } from '../../src/shared/ring.js';
import { RING_HEAD_BYTE, RING_TAIL_BYTE } from '../../src/shared/ring-layout.js';

/** What a test of a ring may do, against a plain array that does the same. */
type Action =
  | { kind: 'push'; type: number; words: number }
  | { kind: 'reserve'; type: number; words: number }
  | { kind: 'commit' }
  | { kind: 'peek' }
  | { kind: 'release' };

interface ModelRecord {
  type: number;
  first: number;
  words: number;
}

const CAPACITIES = [256, 1024, 4096];

function actions(maxWords: number): fc.Arbitrary<Action[]> {
  const type = fc.integer({ min: 1, max: 2 ** 31 - 1 });
  const words = fc.oneof(fc.integer({ min: 0, max: maxWords }), fc.constantFrom(0, 1, maxWords - 1, maxWords));
  return fc.array(
    fc.oneof(
      { weight: 4, arbitrary: fc.record({ kind: fc.constant('push' as const), type, words }) },
      { weight: 1, arbitrary: fc.record({ kind: fc.constant('reserve' as const), type, words }) },
      { weight: 1, arbitrary: fc.record({ kind: fc.constant('commit' as const) }) },
      { weight: 2, arbitrary: fc.record({ kind: fc.constant('peek' as const) }) },
      { weight: 4, arbitrary: fc.record({ kind: fc.constant('release' as const) }) },
    ),
    { minLength: 20, maxLength: 300 },
  );
}

/** Runs the actions over a ring of `capacity` whose counters begin at `counter`. Throws where ring and array differ. */
function compare(capacity: number, counter: number, steps: Action[]): void {
  const buffer = new SharedArrayBuffer(ringBytes(capacity));
  const shared = new Int32Array(buffer);
  shared[RING_TAIL_BYTE >> 2] = counter;
  shared[RING_HEAD_BYTE >> 2] = counter;
  const producer = new RingProducer(buffer);
  const consumer = new RingConsumer(buffer);
  const visible: ModelRecord[] = [];
  const reserved: ModelRecord[] = [];
  let next = 1;

  const reserve = (type: number, words: number): boolean => {
    const at = producer.reserve(type, words);
    if (at < 0) return false;
    for (let i = 0; i < words; i++) producer.payloadWords[at + i] = next + i;
    reserved.push({ type, first: next, words });
    next += words;
    return true;
  };
  const commit = (): void => {
    producer.commit();
    visible.push(...reserved.splice(0));
  };
  const check = (): void => {
    const record = consumer.peek();
    const expected = visible[0];
    if (record === null) {
      if (expected) throw new Error('the ring lost a record');
      return;
    }
    if (!expected) throw new Error('the ring has a record too many');
    if (record.type !== expected.type) throw new Error(`type ${record.type}, expected ${expected.type}`);
    if (record.lengthWords !== expected.words)
      throw new Error(`length ${record.lengthWords}, expected ${expected.words}`);
    for (let i = 0; i < expected.words; i++) {
      if (consumer.payloadWords[record.at + i] !== expected.first + i)
        throw new Error(`word ${i} is not what was written`);
    }
  };

  for (const step of steps) {
    if (step.kind === 'commit') commit();
    if (step.kind === 'peek') check();
    if (step.kind === 'reserve') reserve(step.type, step.words);
    if (step.kind === 'push' && reserve(step.type, step.words)) commit();
    if (step.kind === 'release' && consumer.peek() !== null) {
      check();
      consumer.release();
      visible.shift();
    }
    if (consumer.usedBytes < 0 || consumer.usedBytes > capacity) throw new Error(`${consumer.usedBytes} bytes used`);
    const isEmpty = visible.length === 0 && reserved.length === 0;
    // A ring that is empty takes any legal record, wherever its counters stand: else a producer could wait for ever.
    if (isEmpty && consumer.peek() === null && producer.usedBytes !== 0) throw new Error('an empty ring holds bytes');
  }
  commit();
  while (visible.length > 0) {
    check();
    consumer.release();
    visible.shift();
  }
  if (consumer.peek() !== null) throw new Error('records were left over');
  if (!producer.push(1, producer.maxPayloadBytes / 4, () => {})) throw new Error('an empty ring refused a record');
}

for (const capacity of CAPACITIES) {
  t.test(`a ring of ${capacity} bytes behaves as a plain array`, async () => {
    const maxWords = (capacity / 8 - 8) / 4;
    const counter = fc.oneof(
      fc.constant(0),
      fc.integer({ min: -512, max: 512 }).map((n) => n * 8),
      fc.integer({ min: -512, max: 511 }).map((n) => (2 ** 31 + n * 8) | 0),
    );
    fc.assert(
      fc.property(counter, actions(maxWords), (start, steps) => compare(capacity, start, steps)),
      { numRuns: 300 },
    );
  });
}
