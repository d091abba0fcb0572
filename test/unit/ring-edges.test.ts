import t from 'tap';
import { RingConsumer, RingProducer, ringBytes, ringCapacityFor } from '../../src/shared/ring.js';
import { RECORD_HEADER_BYTES, RECORD_MAX_SHARE, RING_HEAD_BYTE, RING_TAIL_BYTE } from '../../src/shared/ring-layout.js';

const CAPACITY = 1024;
/** A record of this many payload words takes 128 bytes: the largest of the ring, and eight fill it. */
const MAX_WORDS = (CAPACITY / RECORD_MAX_SHARE - RECORD_HEADER_BYTES) / 4;

function ring(counter = 0, capacity = CAPACITY) {
  const buffer = new SharedArrayBuffer(ringBytes(capacity));
  const words = new Int32Array(buffer);
  // Both ends read the counters when they are made, so an old ring is one whose counters were set before.
  words[RING_TAIL_BYTE >> 2] = counter | 0;
  words[RING_HEAD_BYTE >> 2] = counter | 0;
  return { buffer, producer: new RingProducer(buffer), consumer: new RingConsumer(buffer) };
}

function push(producer: RingProducer, type: number, values: readonly number[]): boolean {
  return producer.push(type, values.length, (words, at) => words.set(values, at));
}

function take(consumer: RingConsumer): { type: number; values: number[] } | null {
  const record = consumer.peek();
  if (record === null) return null;
  const values = [...consumer.payloadWords.subarray(record.at, record.at + record.lengthWords)];
  const { type } = record;
  consumer.release();
  return { type, values };
}

const full = (value: number) => new Array<number>(MAX_WORDS).fill(value);

t.test('an empty ring has no record', async (t) => {
  const { producer, consumer } = ring();
  t.equal(consumer.peek(), null);
  t.equal(producer.usedBytes, 0);
  push(producer, 1, [7]);
  t.same(take(consumer), { type: 1, values: [7] });
  t.equal(consumer.peek(), null);
  t.equal(consumer.usedBytes, 0);
});

t.test('a record without a payload is a record', async (t) => {
  const { producer, consumer } = ring();
  t.ok(push(producer, 3, []));
  t.same(take(consumer), { type: 3, values: [] });
});

t.test('peek gives the same record until release', async (t) => {
  const { producer, consumer } = ring();
  push(producer, 1, [1]);
  push(producer, 2, [2]);
  t.equal(consumer.peek()?.type, 1);
  t.equal(consumer.peek()?.type, 1);
  consumer.release();
  t.equal(consumer.peek()?.type, 2);
});

t.test('a ring fills to its last byte, then refuses, then takes what was freed', async (t) => {
  const { producer, consumer } = ring();
  for (let i = 0; i < RECORD_MAX_SHARE; i++) t.ok(push(producer, 1, full(i)));
  t.equal(producer.usedBytes, CAPACITY);
  t.notOk(push(producer, 1, []), 'not even the smallest record');
  t.equal(producer.usedBytes, CAPACITY, 'a refused record leaves no trace');
  t.same(take(consumer), { type: 1, values: full(0) });
  t.ok(push(producer, 1, full(99)));
  t.notOk(push(producer, 1, []));
  for (let i = 1; i < RECORD_MAX_SHARE; i++) t.same(take(consumer)?.values, full(i));
  t.same(take(consumer)?.values, full(99));
  t.equal(consumer.peek(), null);
});

t.test('a record that does not fit before the end starts at the beginning', async (t) => {
  const { producer, consumer } = ring();
  for (let i = 0; i < 7; i++) push(producer, 1, full(i));
  push(producer, 1, new Array<number>(20).fill(7));
  for (let i = 0; i < 8; i++) take(consumer);
  // 896 + 88 bytes are used up: 40 are left before the end, too few for the next record.
  t.ok(push(producer, 5, full(8)));
  t.equal(producer.usedBytes, 40 + 128, 'the padding counts as used');
  const record = consumer.peek();
  t.equal(record?.at, (256 + RECORD_HEADER_BYTES) / 4, 'the record lies at the first data word');
  t.same(take(consumer), { type: 5, values: full(8) });
  t.equal(consumer.usedBytes, 0);
});

t.test('padding of a bare header fills the end', async (t) => {
  const { producer, consumer } = ring();
  for (let i = 0; i < 7; i++) push(producer, 1, full(i));
  push(producer, 1, new Array<number>(MAX_WORDS - 2).fill(7));
  for (let i = 0; i < 8; i++) take(consumer);
  t.ok(push(producer, 5, [1, 2]));
  t.equal(producer.usedBytes, 8 + 16);
  t.same(take(consumer), { type: 5, values: [1, 2] });
});

t.test('a record with padding needs room for both', async (t) => {
  const { producer, consumer } = ring();
  for (let i = 0; i < 7; i++) push(producer, 1, full(i));
  push(producer, 1, new Array<number>(20).fill(7));
  take(consumer);
  // 40 bytes before the end and 128 at the beginning are free.
  t.ok(push(producer, 2, full(8)));
  t.notOk(push(producer, 2, []));
  for (let i = 1; i < 8; i++) take(consumer);
  t.same(take(consumer)?.values, full(8));

  const tight = ring();
  for (let i = 0; i < 7; i++) push(tight.producer, 1, full(i));
  push(tight.producer, 1, new Array<number>(20).fill(7));
  t.notOk(push(tight.producer, 1, full(8)), 'no room at the beginning');
  t.ok(push(tight.producer, 1, new Array<number>(8).fill(9)), 'a record that fits before the end still goes in');
  t.equal(tight.producer.usedBytes, CAPACITY);
});

t.test('records over an eighth of the ring, and the padding type, are refused', async (t) => {
  const { producer, consumer } = ring();
  t.equal(producer.maxPayloadBytes, MAX_WORDS * 4);
  t.throws(() => push(producer, 1, new Array<number>(MAX_WORDS + 1).fill(0)), RangeError);
  t.throws(() => push(producer, 0, [1]), RangeError);
  t.equal(consumer.peek(), null, 'nothing of them is visible');
  t.equal(ringCapacityFor(MAX_WORDS * 4), CAPACITY);
  t.equal(ringCapacityFor(MAX_WORDS * 4 + 4), CAPACITY * 2);
});

t.test('a capacity is a power of two within bounds', async (t) => {
  for (const capacity of [0, 32, 63, 96, 1000, 2 ** 31]) t.throws(() => ringBytes(capacity), RangeError, `${capacity}`);
  t.throws(() => new RingProducer(new SharedArrayBuffer(256 + 1000)), RangeError);
  t.equal(ringBytes(64), 256 + 64);
});

t.test('what reserve took is visible only after commit', async (t) => {
  const { producer, consumer } = ring();
  const first = producer.reserve(1, 1);
  producer.payloadWords[first] = 11;
  const second = producer.reserve(2, 1);
  producer.payloadWords[second] = 22;
  t.equal(consumer.peek(), null);
  producer.commit();
  t.same(take(consumer), { type: 1, values: [11] });
  t.same(take(consumer), { type: 2, values: [22] });
});

t.test('ends made over a ring in use go on where it stands', async (t) => {
  const { buffer, producer, consumer } = ring();
  push(producer, 1, [1]);
  push(producer, 1, [2]);
  take(consumer);
  const later = new RingConsumer(buffer);
  t.same(take(later)?.values, [2]);
  t.ok(push(new RingProducer(buffer), 1, [3]));
  t.same(take(later)?.values, [3]);
});

for (const [name, wrap] of [
  ['2^31', 2 ** 31],
  ['2^32', 2 ** 32],
] as const) {
  t.test(`counters pass ${name}`, async (t) => {
    const { producer, consumer } = ring(wrap - 2 * CAPACITY);
    let pushed = 0;
    let taken = 0;
    // Four times around, always nearly full, so that tail and head pass the edge at different moments.
    while (taken < 64) {
      for (let i = 0; i < 16 && push(producer, 1, [pushed, ...full(0).slice(1 + (pushed % 5))]); i++) pushed++;
      t.ok(producer.usedBytes > 0 && producer.usedBytes <= CAPACITY);
      for (let i = 0; i < 3; i++) t.equal(take(consumer)?.values[0], taken++);
    }
    while (taken < pushed) t.equal(take(consumer)?.values[0], taken++);
    t.equal(consumer.peek(), null);
  });
}

t.test('a corrupt length is an error, not a read beyond the ring', async (t) => {
  const { buffer, producer, consumer } = ring();
  push(producer, 1, [1]);
  const words = new Int32Array(buffer);
  for (const bad of [-8, CAPACITY + 8]) {
    words[256 >> 2] = bad;
    t.throws(() => consumer.peek(), /corrupt/);
  }
});
