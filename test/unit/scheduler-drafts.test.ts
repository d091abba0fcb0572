/** Drafts in the scheduler: when they are tried, and what is left of them. Which ones are likely is prompt-lookup.test.ts. */
import t from 'tap';
import { SEGMENT } from '../../src/shared/batch-wire.js';
import type { DraftSource } from '../../src/shared/scheduler/draft-policy.js';
import type { Request } from '../../src/shared/scheduler/request.js';
import { fakeCompletion } from '../../src/workers/fake-tokens.js';
import { LIMITS, SchedulerHarness, segmentsOf } from '../support/scheduler-harness.js';

const PROMPT = Array.from({ length: 20 }, (_, i) => 65 + (i % 26));
const OTHER = Array.from({ length: 30 }, (_, i) => 97 + ((i * 3) % 26));

/** Always three drafts, of which the first `right` are what the fake model will say. */
class Scripted implements DraftSource {
  constructor(private readonly right: number) {}

  worthwhile(_request: Request, most: number): number {
    return Math.min(3, most);
  }

  drafts(request: Request, count: number): Int32Array {
    const answer = fakeCompletion(request.tokens.subarray(0, request.promptCount), 100, { ignoreEos: true });
    const from = request.knownCount - request.promptCount;
    return Int32Array.from({ length: count }, (_, i) => (i < this.right ? answer[from + i] : 66));
  }
}

function harnessWith(right: number, limits = LIMITS): SchedulerHarness {
  return new SchedulerHarness(limits, {}, new Scripted(right));
}

/** Samples that each segment of the last record asks for. */
const samplesAsked = (harness: SchedulerHarness) =>
  segmentsOf(harness.lastRecord).map((words) => words[SEGMENT.sample]);
const params = (maxTokens: number) => ({ params: { maxTokens, ignoreEos: true } });

t.test('right drafts save steps, wrong ones cost cells for one step alone', async (t) => {
  for (const right of [0, 1, 3]) {
    const harness = harnessWith(right);
    harness.submit(1, PROMPT, params(17));
    let steps = 0;
    while (harness.plan()) {
      steps++;
      harness.run();
      if (harness.outcome(1).end !== '') break;
      const known = PROMPT.length + harness.outcome(1).tokens.length;
      t.equal(harness.scheduler.cellCounts().used, known - 1, 'all but the newest token have a cell');
    }
    t.same(harness.outcome(1).tokens, fakeCompletion(PROMPT, 17, { ignoreEos: true }));
    const { draftedTokens, acceptedDraftTokens } = harness.scheduler.counters;
    t.equal(steps, 17 - acceptedDraftTokens);
    if (right === 3) t.equal(acceptedDraftTokens, draftedTokens);
    if (right === 0) t.equal(acceptedDraftTokens, 0);
    if (right === 1) t.equal(steps, 9, 'two tokens a step');
    t.equal(harness.scheduler.activeCount, 0);
  }
});

t.test('the step behind a sample or drafts waits until they are known', async (t) => {
  const harness = harnessWith(3);
  harness.submit(1, PROMPT, params(20));
  t.ok(harness.plan());
  t.notOk(harness.plan(), 'the prompt');
  harness.run();
  t.ok(harness.plan());
  t.same(samplesAsked(harness), [4]);
  t.notOk(harness.plan(), 'drafts');
  harness.run();
  t.equal(harness.outcome(1).tokens.length, 5);
});

t.test('a request that is not alone is not drafted for, and is planned ahead as ever', async (t) => {
  const harness = harnessWith(3);
  harness.submit(1, PROMPT, params(20));
  harness.submit(2, OTHER, params(20));
  harness.plan();
  for (let i = 0; i < 4; i++) {
    t.ok(harness.plan());
    t.same(samplesAsked(harness), [1, 1]);
    harness.run();
  }
  harness.drain();
  t.same(harness.outcome(1).tokens, fakeCompletion(PROMPT, 20, { ignoreEos: true }));
  t.same(harness.outcome(2).tokens, fakeCompletion(OTHER, 20, { ignoreEos: true }));
});

t.test('one that comes while drafts are under way begins at once', async (t) => {
  const harness = harnessWith(1);
  harness.submit(1, PROMPT, params(20));
  harness.plan();
  harness.run();
  harness.plan();
  harness.submit(2, OTHER, params(20));
  t.ok(harness.plan(), 'its prompt, beside the drafts');
  t.same(
    segmentsOf(harness.lastRecord).map((words) => words[SEGMENT.request]),
    [2],
  );
  harness.drain();
  t.same(harness.outcome(1).tokens, fakeCompletion(PROMPT, 20, { ignoreEos: true }));
  t.same(harness.outcome(2).tokens, fakeCompletion(OTHER, 20, { ignoreEos: true }));
});

t.test('no drafts where they are switched off, refused, or could not be removed', async (t) => {
  const cases: Array<[string, Partial<typeof LIMITS>, boolean]> = [
    ['by the server', { speculates: false }, true],
    ['by the request', {}, false],
    ['ends cannot be removed', { canTrim: false }, true],
    ['one output a step', { sequences: 1, runningCap: 1 }, true],
  ];
  for (const [name, limits, allowsDrafts] of cases) {
    const harness = harnessWith(3, { ...LIMITS, ...limits });
    harness.submit(1, PROMPT, { allowsDrafts, ...params(12) });
    harness.drain();
    t.equal(harness.scheduler.counters.draftedTokens, 0, name);
    t.equal(harness.outcome(1).tokens.length, 12);
  }
});

t.test('no more drafts than outputs, tokens and cells are left', async (t) => {
  const two = harnessWith(3, { ...LIMITS, sequences: 2, runningCap: 1 });
  two.submit(1, PROMPT, params(20));
  two.plan();
  two.run();
  two.plan();
  t.same(samplesAsked(two), [2], 'as many samples as sequences');

  const limited = harnessWith(3);
  limited.submit(1, PROMPT, params(3));
  limited.plan();
  limited.run();
  limited.plan();
  t.same(samplesAsked(limited), [2], 'two tokens are left of three');

  for (const layout of ['private', 'shared'] as const) {
    const full = harnessWith(3, { ...LIMITS, layout, cells: 256, contextTokens: 256, sequences: 4, runningCap: 4 });
    full.submit(1, [...PROMPT, ...Array(215).fill(70)], params(21));
    full.drain();
    t.equal(full.outcome(1).tokens.length, 21, `to the last cell, ${layout}`);
  }
});

t.test('a cancel while drafts are under way leaves a prefix of known tokens', async (t) => {
  for (const right of [0, 2, 3]) {
    const harness = harnessWith(right);
    harness.submit(1, PROMPT, params(30));
    harness.plan();
    harness.run();
    harness.plan();
    harness.scheduler.cancel(1);
    harness.drain();
    t.equal(harness.outcome(1).end, 'cancelled');
    const { used, cached } = harness.scheduler.cellCounts();
    t.equal(used, PROMPT.length + 1 + right);
    t.equal(cached, used);
    const longer = [...PROMPT, ...fakeCompletion(PROMPT, 1 + right, { ignoreEos: true }), 80, 81];
    harness.submit(2, longer, params(5));
    harness.drain();
    t.equal(harness.outcome(2).cachedTokens, PROMPT.length + 1 + right);
    t.same(harness.outcome(2).tokens, fakeCompletion(longer, 5, { ignoreEos: true }));
  }
});

t.test('an end among the drafts ends the request there', async (t) => {
  const ends = { endOfGenerationAfter: 7 };
  const harness = new SchedulerHarness(LIMITS, ends, new Scripted(3));
  harness.submit(1, PROMPT, { params: { maxTokens: 30 } });
  harness.drain();
  t.same(harness.outcome(1), { tokens: fakeCompletion(PROMPT, 30, ends), cachedTokens: 0, end: 'stop' });
  t.equal(harness.scheduler.cellCounts().used, PROMPT.length + 7);
  t.equal(harness.scheduler.activeCount, 0);
});
