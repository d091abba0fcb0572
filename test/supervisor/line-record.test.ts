import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import t from 'tap';
import { readLineFile, removeLineFile, writeLineFile } from '../../src/main/supervisor/line-file.js';
import {
  type LineRecord,
  loweredLine,
  parseLineRecord,
  WORKED_MS_PER_STEP,
  workedLine,
} from '../../src/main/supervisor/line-record.js';

const SUBJECT = { model: 'm.gguf', devices: 'auto', machine: 'here' };
const DEATH = { because: 'aborted (SIGABRT)', atMs: Date.UTC(2026, 0, 2) };

/** Fractions after each of `count` deaths. */
function fractionsDown(count: number): LineRecord[] {
  const records: LineRecord[] = [];
  for (let i = 0; i < count; i++) {
    const before = records.at(-1) ?? null;
    records.push(loweredLine(before, before?.fraction ?? 1, DEATH, SUBJECT));
  }
  return records;
}

t.test('each death is a step down, to a floor', async (t) => {
  const records = fractionsDown(8);
  t.strictSame(
    records.map(({ fraction }) => fraction),
    [0.9, 0.81, 0.729, 0.656, 0.59, 0.531, 0.5, 0.5],
  );
  t.match(records[7], { schema: 1, ...SUBJECT, deaths: 8, since: '2026-01-02T00:00:00.000Z', workedMs: 0 });
});

t.test('the step is taken from what the dead process kept, not from what the file has by now', async (t) => {
  const raised = { ...fractionsDown(1)[0], fraction: 0.9, deaths: 2 };
  t.match(loweredLine(raised, 0.81, DEATH, SUBJECT), { fraction: 0.729, deaths: 3 });
});

t.test('hours of work are steps up, to the limit', async (t) => {
  let record: LineRecord | null = fractionsDown(7)[6];
  const fractions: number[] = [];
  for (let i = 0; i < 20 && record !== null; i++) {
    const half: LineRecord | null = workedLine(record, WORKED_MS_PER_STEP / 2);
    t.match(half, { fraction: record.fraction, workedMs: WORKED_MS_PER_STEP / 2 });
    record = half && workedLine(half, WORKED_MS_PER_STEP / 2);
    if (record) fractions.push(record.fraction);
  }
  t.equal(record, null, 'at the limit there is nothing to remember');
  t.strictSame(fractions, [0.556, 0.618, 0.687, 0.763, 0.848, 0.942]);
});

t.test('a record survives its file', async (t) => {
  const path = join(t.testdir({}), 'a', 'b', 'line.json');
  const [record] = fractionsDown(1);
  writeLineFile(path, record);
  t.strictSame(readLineFile(path), record);
  t.strictSame(readdirSync(join(path, '..')), ['line.json'], 'nothing is left beside it');
  removeLineFile(path);
  t.equal(readLineFile(path), null);
  removeLineFile(path);
});

t.test('a file that cannot take its name leaves nothing behind', async (t) => {
  const folder = t.testdir({});
  const path = join(folder, 'line.json');
  mkdirSync(join(path, 'in the way'), { recursive: true });
  t.throws(() => writeLineFile(path, fractionsDown(1)[0]));
  t.strictSame(readdirSync(folder), ['line.json']);
});

t.test('whatever is no record is none', async (t) => {
  const [record] = fractionsDown(1);
  const path = join(t.testdir({}), 'line.json');
  for (const change of [
    { schema: 2 },
    { fraction: 1 },
    { fraction: 0.49 },
    { fraction: '0.9' },
    { fraction: null },
    { because: 1 },
    { because: 'x'.repeat(301) },
    { model: undefined },
    { since: 'yesterday' },
    { deaths: 0 },
    { workedMs: -1 },
  ]) {
    t.equal(parseLineRecord(JSON.stringify({ ...record, ...change })), null, JSON.stringify(change));
  }
  fc.assert(
    fc.property(fc.oneof(fc.string(), fc.json()), (text) => {
      writeFileSync(path, text);
      return readLineFile(path) === null;
    }),
    { numRuns: 200 },
  );
  writeFileSync(path, JSON.stringify(record) + ' '.repeat(5000));
  t.equal(readLineFile(path), null, 'too long');
});
