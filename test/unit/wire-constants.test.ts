import t from 'tap';
import * as batch from '../../src/shared/batch-wire.js';
import { CONTROL, CONTROL_WORDS, PEER_STATE, STOP } from '../../src/shared/control-layout.js';
import { DOORBELL_BYTES } from '../../src/shared/doorbell.js';
import { ERRORS } from '../../src/shared/errors.js';
import { DEVICE_GAUGES, GAUGES_DATA_BYTE, gaugesBytes } from '../../src/shared/gauges-layout.js';
import * as result from '../../src/shared/result-wire.js';
import * as ring from '../../src/shared/ring-layout.js';
import * as sampling from '../../src/shared/sampling-wire.js';
import * as output from '../../src/shared/step-output.js';
import * as submit from '../../src/shared/submit-wire.js';
import * as token from '../../src/shared/token-wire.js';

/** Index tables and the words that a record of each takes. `exact`: no word is spare, because records of it are packed. */
const TABLES: Array<{ name: string; table: Record<string, number>; words: number; exact?: boolean }> = [
  { name: 'batch header', table: batch.BATCH_HEADER, words: batch.BATCH_HEADER_WORDS },
  { name: 'op', table: batch.OP, words: batch.OP_WORDS, exact: true },
  { name: 'start', table: batch.START, words: batch.START_WORDS, exact: true },
  { name: 'segment', table: batch.SEGMENT, words: batch.SEGMENT_WORDS, exact: true },
  { name: 'notice', table: batch.NOTICE, words: batch.NOTICE_WORDS, exact: true },
  { name: 'submit header', table: submit.SUBMIT, words: submit.SUBMIT_HEADER_WORDS },
  { name: 'sampling block', table: sampling.SAMPLING, words: sampling.SAMPLING_FIXED_WORDS },
  { name: 'result header', table: result.RESULT, words: result.RESULT_HEADER_WORDS },
  { name: 'result sample', table: result.RESULT_SAMPLE, words: result.RESULT_SAMPLE_WORDS, exact: true },
  { name: 'token sample', table: token.TOKEN_SAMPLE, words: token.TOKEN_SAMPLE_WORDS, exact: true },
  { name: 'step output header', table: output.STEP_OUT, words: output.STEP_OUT_HEADER_WORDS },
  { name: 'control block', table: CONTROL, words: CONTROL_WORDS },
];

for (const { name, table, words, exact } of TABLES) {
  t.test(`${name}: every word has one name and lies inside`, async (t) => {
    const indices = Object.values(table).sort((a, b) => a - b);
    t.same(indices, [...indices.keys()], 'indices run from 0 without gap or overlap');
    t.ok(indices.length <= words, `${indices.length} fields in ${words} words`);
    if (exact) t.equal(indices.length, words);
  });
}

t.test('kinds, states and codes of one table differ, and 0 means none', async (t) => {
  for (const [name, table] of Object.entries({
    OP_KIND: batch.OP_KIND,
    SUBMIT_TYPE: submit.SUBMIT_TYPE,
    RESULT_TYPE: result.RESULT_TYPE,
    TOKEN_TYPE: token.TOKEN_TYPE,
    NOTICE_KIND: token.NOTICE_KIND,
    FINISH_CODE: token.FINISH_CODE,
  })) {
    const values = Object.values(table);
    t.equal(new Set(values).size, values.length, name);
    t.ok(Math.min(...values) > 0, `${name} leaves 0 free: it is the padding type, or nothing`);
  }
  for (const table of [output.STEP_STATUS, STOP, PEER_STATE]) t.equal(Math.min(...Object.values(table)), 0);
  t.not(batch.BATCH_RECORD_TYPE, ring.RECORD_TYPE_PADDING);
});

t.test('flags are single bits, and the mask of endings covers them', async (t) => {
  const flags = Object.values(output.SAMPLE_FLAG);
  for (const flag of [...flags, ...Object.values(sampling.SAMPLING_FLAG), ...Object.values(submit.SUBMIT_FLAG)]) {
    t.equal(flag & (flag - 1), 0);
  }
  t.equal(
    flags.reduce<number>((mask, flag) => mask | flag, 0),
    output.SAMPLE_FLAGS_DONE,
  );
});

t.test('a sample has room for the most alternatives', async (t) => {
  t.equal(output.SAMPLE.top, Object.keys(output.SAMPLE).length - 1, 'the alternatives follow the fields');
  t.equal(output.SAMPLE_WORDS, output.SAMPLE.top + 2 * sampling.TOP_LOGPROBS_MAX);
  t.equal(output.stepOutputWords(3), output.STEP_OUT_HEADER_WORDS + 3 * output.SAMPLE_WORDS);
});

t.test('ring counters have cache lines of their own, records are aligned', async (t) => {
  t.ok(ring.RING_HEAD_BYTE - ring.RING_TAIL_BYTE >= 128);
  t.ok(ring.RING_DATA_BYTE - ring.RING_HEAD_BYTE >= 128);
  t.equal(ring.RING_DATA_BYTE % ring.RECORD_ALIGN_BYTES, 0);
  t.equal(ring.RECORD_HEADER_BYTES % ring.RECORD_ALIGN_BYTES, 0, 'so padding always has room for its own header');
  t.ok(DOORBELL_BYTES >= 256, 'count and waiting word are 128 bytes apart');
});

t.test('gauge blocks hold their fields, aligned for 64-bit floats', async (t) => {
  t.equal(GAUGES_DATA_BYTE % 8, 0);
  t.equal(gaugesBytes(DEVICE_GAUGES), GAUGES_DATA_BYTE + DEVICE_GAUGES.length * 8);
});

t.test('only errors that may go away on their own ask to be retried', async (t) => {
  for (const [code, entry] of Object.entries(ERRORS)) {
    t.ok(entry.status >= 400 && entry.status < 600, code);
    t.equal(entry.retry, [408, 409, 429].includes(entry.status) || entry.status >= 500, code);
  }
});
