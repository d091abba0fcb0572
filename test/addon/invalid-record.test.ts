import fc from 'fast-check';
import t from 'tap';
import { BATCH_HEADER_WORDS } from '../../src/shared/batch-wire.js';
import { EngineError } from '../../src/shared/engine.js';
import { STEP_OUT, STEP_STATUS, stepOutputWords } from '../../src/shared/step-output.js';
import { batchRecord, type RecordPlan } from '../support/batch-record.js';
import { EngineUnderTest, tokensFrom } from './engine-under-test.js';

// Model tests wait for the cores that other tests use.
t.setTimeout(180_000);

const under = new EngineUnderTest('tiny-qwen3');
t.teardown(() => under.close());

const prompt = tokensFrom(1, 10);
type Plan = Omit<RecordPlan, 'stepId'>;

/** Sequence 0 runs and has sampled, 1 holds a prefix without a request, 2 is empty, 3 is done. */
function prepare(): void {
  under.createContext({ batchTokens: 64 });
  under.step({
    starts: [
      { sequence: 0, request: 10 },
      { sequence: 3, request: 13, sampling: { maxTokens: 1 } },
    ],
    segments: [
      { sequence: 0, request: 10, position: 0, tokens: prompt },
      { sequence: 1, request: 11, position: 0, tokens: prompt, sample: false },
      { sequence: 3, request: 13, position: 0, tokens: prompt },
    ],
  });
}

/** The running request's next token: the same as ever when the refused record has changed nothing. */
function nextToken(): number {
  return under.step({ segments: [{ sequence: 0, request: 10, position: 10 }] })[0].token;
}

prepare();
const expectedToken = nextToken();

const segment = (changes: object) => ({ segments: [{ sequence: 0, request: 10, position: 10, ...changes }] });
const tooMany = tokensFrom(2, 65);
const REFUSED: [string, Plan, RegExp][] = [
  ['a sequence that is not there', segment({ sequence: 4 }), /sequence 4/],
  ['a negative sequence', { ops: [{ kind: 'remove', sequence: -1 }] }, /sequence -1/],
  ['a gap', segment({ position: 12, tokens: [5] }), /position 12/],
  ['a step back', segment({ position: 9, tokens: [5] }), /position 9/],
  ['a token beyond the vocabulary', segment({ tokens: [2 ** 30] }), /token 1073741824/],
  ['a negative token', segment({ tokens: [-5] }), /token -5/],
  ['more tokens than the context takes', segment({ tokens: tooMany }), /65 tokens/],
  ['an empty segment', segment({ tokens: [] }), /empty/],
  ['a placeholder at a wrong position', segment({ position: 11 }), /position 11/],
  ['a placeholder of a sequence without a request', segment({ sequence: 1, request: 11 }), /not started/],
  ['a placeholder of an empty sequence', segment({ sequence: 2, position: 0 }), /not started/],
  [
    'a placeholder after a cut',
    { ops: [{ kind: 'remove', sequence: 0, from: 5 }], ...segment({ position: 5 }) },
    /sampled nothing/,
  ],
  [
    'a placeholder after a new start',
    { starts: [{ sequence: 0, request: 20 }], ...segment({ request: 20 }) },
    /sampled nothing/,
  ],
  ['a sample without a request', segment({ sequence: 1, request: 11, tokens: [5] }), /no running request/],
  ['a sample of a request that is done', segment({ sequence: 3, request: 13, tokens: [5] }), /no running request/],
  [
    'a sample of a request just stopped',
    { ops: [{ kind: 'stop', sequence: 0 }], ...segment({ tokens: [5] }) },
    /no running request/,
  ],
  ['a sample for another request', segment({ request: 99, tokens: [5] }), /another request/],
  [
    'two segments of one sequence',
    {
      segments: [
        { sequence: 0, request: 10, position: 10 },
        { sequence: 0, request: 10, position: 11, tokens: [5] },
      ],
    },
    /two segments/,
  ],
  [
    'two starts of one sequence',
    {
      starts: [
        { sequence: 2, request: 1 },
        { sequence: 2, request: 2 },
      ],
    },
    /twice/,
  ],
  ['a hole', { ops: [{ kind: 'remove', sequence: 0, from: 2, to: 4 }] }, /middle/],
  ['a removal before the beginning', { ops: [{ kind: 'remove', sequence: 0, from: -3 }] }, /position -3/],
  ['a copy onto tokens', { ops: [{ kind: 'copy', sequence: 0, destination: 1 }] }, /which has 10/],
  ['a copy to itself', { ops: [{ kind: 'copy', sequence: 0, destination: 0 }] }, /itself/],
  [
    'a copy of tokens that are not there',
    { ops: [{ kind: 'copy', sequence: 2, destination: 1, from: 10, to: 20 }] },
    /does not have/,
  ],
  ['a copy to nowhere', { ops: [{ kind: 'copy', sequence: 0, destination: 9 }] }, /sequence 9/],
  ['a start of a sequence that is not there', { starts: [{ sequence: 7, request: 1 }] }, /sequence 7/],
];

for (const [name, plan, message] of REFUSED) {
  t.test(`${name} is refused, and nothing is done`, async (t) => {
    prepare();
    t.throws(() => under.step(plan), { name: 'EngineError', code: 'invalid_record', message });
    t.equal(under.result('status'), STEP_STATUS.invalidRecord);
    t.equal(nextToken(), expectedToken);
  });
}

t.test('an operation of an unknown kind is refused', async (t) => {
  prepare();
  const record = batchRecord({ stepId: 1, ops: [{ kind: 'remove', sequence: 0 }] });
  record[BATCH_HEADER_WORDS] = 77;
  t.throws(() => under.engine.step(record, 0, under.output), { code: 'invalid_record', message: /kind 77/ });
});

t.test('arguments of wrong types or sizes are refused', async (t) => {
  prepare();
  const record = batchRecord({ stepId: 1, ...segment({}) });
  const invalid = { code: 'invalid_argument' };
  t.throws(() => under.engine.step([] as never, 0, under.output), invalid);
  t.throws(() => under.engine.step(new Uint32Array(record) as never, 0, under.output), invalid);
  t.throws(() => under.engine.step(record, record.length + 1, under.output), invalid);
  t.throws(() => under.engine.step(record, -1, under.output), invalid);
  t.throws(() => under.engine.step(record, 0, new Int32Array(3)), invalid);
  t.throws(() => under.engine.step(record, 0, new Int32Array(stepOutputWords(0))), {
    code: 'invalid_record',
    message: /room/,
  });
  t.equal(nextToken(), expectedToken);
});

t.test('a record with any word changed is either refused or obeyed; the process lives', async (t) => {
  const base = batchRecord({
    stepId: 1,
    ops: [{ kind: 'copy', sequence: 1, destination: 2 }],
    starts: [
      {
        sequence: 2,
        request: 12,
        history: [1, 2, 3],
        sampling: {
          temperature: 1,
          topK: 5,
          logitBias: [[4, 1]],
          penaltyLastTokens: 8,
          presencePenalty: 1,
          grammar: 'root ::= "a" root | "b"',
        },
      },
    ],
    segments: [
      { sequence: 0, request: 10, position: 10 },
      { sequence: 2, request: 12, position: 10, tokens: [5, 6, 7] },
    ],
    notices: [[1, 2, 3, 4]],
  });
  const values = fc.oneof(fc.integer({ min: -3, max: 40 }), fc.integer());
  let refused = 0;
  fc.assert(
    fc.property(fc.integer({ min: 0, max: base.length - 1 }), values, (at, value) => {
      prepare();
      const record = Int32Array.from(base);
      record[at] = value;
      try {
        under.engine.step(record, 0, under.output);
      } catch (error) {
        refused++;
        return (
          error instanceof EngineError &&
          error.code === 'invalid_record' &&
          under.output[STEP_OUT.status] === STEP_STATUS.invalidRecord
        );
      }
      return true;
    }),
    { numRuns: 80, seed: 1 },
  );
  t.ok(refused > 10, `${refused} refused`);
});
