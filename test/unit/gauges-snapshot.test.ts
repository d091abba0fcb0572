import { fileURLToPath } from 'node:url';
import { isMainThread, Worker, workerData } from 'node:worker_threads';
import t from 'tap';
import { GaugeReader, GaugeWriter } from '../../src/shared/gauges.js';
import {
  DEVICE_GAUGES,
  GAUGES_DATA_BYTE,
  GAUGES_SEQUENCE_BYTE,
  gaugesBytes,
  SCHEDULER_GAUGES,
} from '../../src/shared/gauges-layout.js';

const FIELDS = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'] as const;
const READS = 30_000;

interface SoakData {
  gauges: SharedArrayBuffer;
  /** Word 0: the reader wants no more. Word 1: the writer is at work. */
  control: SharedArrayBuffer;
}

/** Writes the same number into every field, over and over: a torn snapshot is one whose fields differ. */
function writeUntilStopped({ gauges, control }: SoakData): void {
  const writer = new GaugeWriter(gauges, FIELDS);
  const words = new Int32Array(control);
  for (let n = 1; Atomics.load(words, 0) === 0; n++) {
    writer.write({ a: n, b: n, c: n, d: n, e: n, f: n, g: n, h: n });
    if (n === 1) {
      Atomics.store(words, 1, 1);
      Atomics.notify(words, 1);
    }
  }
}

if (isMainThread) {
  t.test('fields that a write does not name keep their value', async (t) => {
    const buffer = new SharedArrayBuffer(gaugesBytes(FIELDS));
    const writer = new GaugeWriter(buffer, FIELDS);
    const reader = new GaugeReader(buffer, FIELDS);
    writer.write({ a: 1, h: 2 ** 53 - 1 });
    writer.write({ b: -0.5 });
    t.same({ ...reader.read() }, { a: 1, b: -0.5, c: 0, d: 0, e: 0, f: 0, g: 0, h: 2 ** 53 - 1 });
  });

  t.test('an unknown field is an error that leaves the block readable', async (t) => {
    const buffer = new SharedArrayBuffer(gaugesBytes(FIELDS));
    const writer = new GaugeWriter<string>(buffer, FIELDS);
    t.throws(() => writer.write({ a: 1, nonsense: 2 }), /nonsense/);
    t.ok(new GaugeReader(buffer, FIELDS).read());
  });

  t.test('a writer that stands in the middle of a write: the last snapshot comes again', async (t) => {
    const buffer = new SharedArrayBuffer(gaugesBytes(FIELDS));
    const writer = new GaugeWriter(buffer, FIELDS);
    const reader = new GaugeReader(buffer, FIELDS);
    writer.write({ a: 1 });
    t.equal(reader.read().a, 1);
    const sequence = new Int32Array(buffer);
    Atomics.add(sequence, GAUGES_SEQUENCE_BYTE >> 2, 1);
    new Float64Array(buffer, GAUGES_DATA_BYTE)[0] = 2;
    t.equal(reader.read().a, 1);
    Atomics.add(sequence, GAUGES_SEQUENCE_BYTE >> 2, 1);
    t.equal(reader.read().a, 2);
  });

  t.test('names are unique in each block', async (t) => {
    t.equal(new Set(DEVICE_GAUGES).size, DEVICE_GAUGES.length);
    t.equal(new Set(SCHEDULER_GAUGES).size, SCHEDULER_GAUGES.length);
  });

  t.test('two threads: no snapshot is torn, and none is older than the one before', async (t) => {
    const data: SoakData = {
      gauges: new SharedArrayBuffer(gaugesBytes(FIELDS)),
      control: new SharedArrayBuffer(8),
    };
    const words = new Int32Array(data.control);
    const worker = new Worker(fileURLToPath(import.meta.url), { workerData: data });
    const ended = new Promise((resolve, reject) => {
      worker.once('error', reject);
      worker.once('exit', resolve);
    });
    await Atomics.waitAsync(words, 1, 0).value;
    const reader = new GaugeReader(data.gauges, FIELDS);
    const seen = new Set<number>();
    let torn = 0;
    let backward = 0;
    let last = 0;
    for (let i = 0; i < READS; i++) {
      const snapshot = reader.read();
      if (FIELDS.some((field) => snapshot[field] !== snapshot.a)) torn++;
      if (snapshot.a < last) backward++;
      last = snapshot.a;
      seen.add(last);
    }
    Atomics.store(words, 0, 1);
    await ended;
    t.equal(torn, 0);
    t.equal(backward, 0);
    t.ok(seen.size > 1, 'the writer wrote while the reader read');
  });
} else {
  writeUntilStopped(workerData as SoakData);
}
