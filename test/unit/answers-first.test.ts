import t from 'tap';
import { type AnswersBeside, answersEndFirst } from '../../src/shared/scheduler/answers-first.js';
import { fakeCompletion } from '../../src/workers/fake-tokens.js';
import { LIMITS, SchedulerHarness, segmentsOf } from '../support/scheduler-harness.js';

const BESIDE: AnswersBeside = {
  decodes: 2,
  cells: 2_000,
  tokensLeft: 32,
  decodeMicros: 20_000,
  cellBytes: 131_072,
  weightsBytes: 72e6,
};
const APART = {
  ...LIMITS,
  cells: 4096,
  cellsMax: 4096,
  contextTokens: 3000,
  batchTokens: 68,
  cellBytes: 1000,
  weightsBytes: 1,
};
const letters = (count: number, first = 65) => Array.from({ length: count }, (_, i) => first + (i % 26));
const promptsOf = (record: Int32Array) =>
  segmentsOf(record)
    .filter(([, , count]) => count > 1)
    .map(([, , , , , request]) => request);

t.test('answers that end soon end first', async (t) => {
  t.equal(answersEndFirst(BESIDE), true);
  t.equal(answersEndFirst({ ...BESIDE, tokensLeft: 100 }), true, 'just two seconds');
  t.equal(answersEndFirst({ ...BESIDE, tokensLeft: 101 }), false, 'too long a wait for a prompt');
  t.equal(answersEndFirst({ ...BESIDE, tokensLeft: 5000, decodeMicros: 0 }), true, 'to measure what they take');
  t.equal(answersEndFirst({ ...BESIDE, decodes: 0, cells: 0 }), false, 'nobody answers');
});

t.test('where decodes share more than they have of their own, they are computed with those that follow', async (t) => {
  t.equal(answersEndFirst({ ...BESIDE, cells: 1_099 }), true);
  t.equal(answersEndFirst({ ...BESIDE, cells: 1_098 }), false, 'less than the weights each');
  t.equal(answersEndFirst({ ...BESIDE, weightsBytes: 0 }), false, 'prompts and decodes are one computation');
});

t.test('a long prompt waits for the answer beside it, a short one does not, and both are answered', async (t) => {
  const harness = new SchedulerHarness(APART);
  harness.submit(1, letters(40), { params: { maxTokens: 12 } });
  while (harness.outcome(1).tokens.length === 0) {
    harness.plan();
    harness.run();
  }
  harness.submit(2, letters(20, 97), { params: { maxTokens: 4 } });
  harness.submit(3, letters(300, 70), { params: { maxTokens: 4 } });
  const waited: number[][] = [];
  while (harness.outcome(1).end === '') {
    if (harness.plan()) waited.push(promptsOf(harness.lastRecord));
    harness.run();
  }
  t.same(waited[0], [2], 'the short one goes on at once');
  t.notOk(waited.flat().includes(3), 'the long one waits');
  harness.drain();
  t.same(harness.outcome(2).tokens, fakeCompletion(letters(20, 97), 4));
  t.same(harness.outcome(3).tokens, fakeCompletion(letters(300, 70), 4));
});

t.test('a long prompt does not wait for a long answer', async (t) => {
  const harness = new SchedulerHarness(APART);
  // The harness's steps take a millisecond each.
  harness.submit(1, letters(40), { params: { maxTokens: 2900, ignoreEos: true } });
  harness.submit(2, letters(300, 97), { params: { maxTokens: 4 } });
  for (let step = 0; step < 40 && harness.outcome(2).end === ''; step++) {
    harness.plan();
    harness.run();
  }
  t.not(harness.outcome(2).end, '', 'answered while the long answer goes on');
  t.equal(harness.outcome(1).end, '');
});

t.test('a stream of short answers holds a long prompt up, but never for good', async (t) => {
  const harness = new SchedulerHarness({ ...APART, sequences: 3, runningCap: 3 });
  harness.submit(1, letters(1000), { params: { maxTokens: 2 } });
  let next = 2;
  const short = () => harness.submit(next, letters(100, 65 + (next % 20)), { params: { maxTokens: 8 } });
  short();
  for (let step = 0; step < 2_000 && harness.outcome(1).end === ''; step++) {
    if (harness.outcome(next).end !== '') {
      next++;
      short();
    }
    harness.plan();
    harness.run();
  }
  t.not(harness.outcome(1).end, '');
  t.same(harness.outcome(1).tokens, fakeCompletion(letters(1000), 2));
});

t.test('answers that follow each other without a pause hold a long prompt up for ten seconds at most', async (t) => {
  const harness = new SchedulerHarness({ ...APART, sequences: 4, runningCap: 4 });
  let next = 10;
  const chat = [letters(40), letters(40, 97)];
  // Of different lengths, so that they do not end together.
  const answerOf = (i: number) => ({ maxTokens: 29 + 8 * i, ignoreEos: true });
  // Two conversations take turns so that one always answers: what they add is short, what they have is not.
  const speakers = chat.map((prompt, i) => {
    harness.submit(next, prompt, { params: answerOf(i) });
    return next++;
  });
  let stepsUntilAnswered = 0;
  for (let step = 0; step < 20_000; step++) {
    harness.nowMs++;
    if (step === 15) harness.submit(1, letters(1000, 70), { params: { maxTokens: 2 } });
    speakers.forEach((id, i) => {
      const isTurn = harness.outcome(id).end !== '';
      if (!isTurn) return;
      harness.submit(next, chat[i], { params: answerOf(i) });
      speakers[i] = next++;
    });
    harness.plan();
    harness.run();
    if (step > 15 && harness.outcome(1).end !== '' && stepsUntilAnswered === 0) stepsUntilAnswered = step - 15;
  }
  t.ok(stepsUntilAnswered > 0, 'it is answered');
  t.ok(stepsUntilAnswered < 10_300, `ten seconds and its own steps: ${stepsUntilAnswered} ms`);
  t.same(harness.outcome(1).tokens, fakeCompletion(letters(1000, 70), 2));
});
