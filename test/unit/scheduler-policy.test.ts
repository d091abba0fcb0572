import t from 'tap';
import { StepTimes } from '../../src/shared/scheduler/chunk-policy.js';
import { fakeCompletion } from '../../src/workers/fake-tokens.js';
import { LIMITS, SchedulerHarness, segmentsOf } from '../support/scheduler-harness.js';

const letters = (count: number, first = 65) => Array.from({ length: count }, (_, i) => first + (i % 26));

t.test('a short prompt is not stuck behind a long one', async (t) => {
  const harness = new SchedulerHarness({ ...LIMITS, chunkTokens: 32 });
  harness.submit(1, letters(450), { params: { maxTokens: 2 } });
  harness.plan();
  harness.submit(2, letters(20, 97), { params: { maxTokens: 2 } });
  for (let step = 0; step < 4; step++) {
    harness.plan();
    harness.run();
  }
  t.ok(harness.outcome(2).tokens.length > 0, 'it has its first token');
  t.equal(harness.outcome(1).tokens.length, 0, 'the long one is still at it');
  harness.drain();
  t.same(harness.outcome(1).tokens, fakeCompletion(letters(450), 2));
});

t.test('lower numbers run first', async (t) => {
  const harness = new SchedulerHarness({ ...LIMITS, sequences: 1, runningCap: 1 });
  const ends: number[] = [];
  harness.submit(1, letters(5), { priority: 5 });
  harness.submit(2, letters(6), { priority: 1 });
  harness.submit(3, letters(7), { priority: 1 });
  for (let i = 0; i < 200; i++) {
    harness.plan();
    harness.run();
    for (const [id, outcome] of harness.outcomes) if (outcome.end !== '' && !ends.includes(id)) ends.push(id);
  }
  t.same(ends, [2, 3, 1]);
});

t.test('when the pool is full, the request admitted last is computed again, and both answers are whole', async (t) => {
  const harness = new SchedulerHarness({ ...LIMITS, cells: 256, contextTokens: 256, sequences: 2, runningCap: 2 });
  harness.submit(1, letters(60), { params: { maxTokens: 120 } });
  harness.submit(2, letters(60, 97), { params: { maxTokens: 120 } });
  harness.drain();
  t.equal(harness.scheduler.counters.preemptions, 1);
  t.same(harness.outcome(1).tokens, fakeCompletion(letters(60), 120));
  t.same(harness.outcome(2).tokens, fakeCompletion(letters(60, 97), 120));
});

t.test('a prompt that can never fit is refused; one that waits too long as well', async (t) => {
  const harness = new SchedulerHarness({ ...LIMITS, sequences: 1, runningCap: 1 });
  harness.submit(1, letters(512));
  harness.submit(2, letters(10), { params: { maxTokens: 400 } });
  harness.submit(3, letters(10), { maxWaitMs: 100 });
  harness.plan();
  harness.nowMs = 200;
  harness.drain();
  t.equal(harness.outcome(1).end, 'neverFits');
  t.equal(harness.outcome(2).end, 'length');
  t.equal(harness.outcome(3).end, 'insufficientMemory');
});

t.test('the chunk is whole beside nothing, and as large as the latency target allows beside decodes', async (t) => {
  const times = new StepTimes();
  t.equal(times.chunkTokens(4, 512, 150_000), 512, 'nothing is measured yet');
  for (let i = 0; i < 20; i++) {
    times.record(10_000, 4, 0);
    times.record(10_000 + 200 * 1000, 4, 200);
  }
  t.equal(times.chunkTokens(0, 512, 150_000), 512);
  t.equal(times.chunkTokens(4, 512, 150_000), 140, '(150 − 10) ms at 1 ms a token');
  t.equal(times.chunkTokens(4, 512, 74_000), 64, 'the least that is useful');
  t.equal(times.chunkTokens(4, 512, 20_000), 64, 'and never below it');
  t.equal(times.chunkTokens(4, 32, 20_000), 32, 'never above the plan');
});

t.test('segments lie in the order of their sequences, whatever order the requests came in', async (t) => {
  const harness = new SchedulerHarness(LIMITS);
  // Requests of different lengths end at different times: later ones take over sequences in another order.
  for (let id = 1; id <= 12; id++)
    harness.submit(id, letters(5 + id), { params: { maxTokens: 3 + ((id * 5) % 11), ignoreEos: true } });
  let seen = 0;
  while (harness.plan()) {
    const record = harness.lastRecord;
    const sequences = segmentsOf(record).map(([sequence]) => sequence);
    t.same(
      sequences,
      [...sequences].sort((a, b) => a - b),
    );
    seen = Math.max(seen, sequences.length);
    harness.run();
  }
  t.equal(seen, 4);
});

/** Requests and counts of the prompt segments of each step, until every prompt has begun to decode. */
function promptSteps(harness: SchedulerHarness): string[] {
  const steps: string[] = [];
  while (harness.plan()) {
    const prompts = segmentsOf(harness.lastRecord).filter(([, , count]) => count > 1);
    if (prompts.length > 0) steps.push(prompts.map(([, , count, , , request]) => `${request}:${count}`).join(' '));
    harness.run();
  }
  return steps;
}

const STREAMS = { ...LIMITS, layout: 'private' as const, cells: 512, sequences: 6, runningCap: 6, batchTokens: 256 };

t.test('in private streams a prompt does not begin in what a mostly full step has left', async (t) => {
  const harness = new SchedulerHarness({ ...STREAMS, chunkTokens: 100 });
  for (let id = 1; id <= 5; id++) harness.submit(id, letters(40, 60 + id), { params: { maxTokens: 2 } });
  t.same(promptSteps(harness), ['1:40 2:40', '3:40 4:40', '5:40']);
});

t.test(
  'what is left of a step is used where the prompt fits into no step whole, or half of the step would stay empty',
  async (t) => {
    const tooLong = new SchedulerHarness({ ...STREAMS, chunkTokens: 100 });
    tooLong.submit(1, letters(60), { params: { maxTokens: 2 } });
    tooLong.submit(2, letters(120, 97), { params: { maxTokens: 2 } });
    t.same(promptSteps(tooLong), ['1:60 2:40', '2:80']);
    const halfEmpty = new SchedulerHarness({ ...STREAMS, chunkTokens: 100 });
    halfEmpty.submit(1, letters(50), { params: { maxTokens: 2 } });
    halfEmpty.submit(2, letters(80, 97), { params: { maxTokens: 2 } });
    t.same(promptSteps(halfEmpty), ['1:50 2:50', '2:30']);
  },
);
