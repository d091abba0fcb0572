import t from 'tap';
import { OP_KIND } from '../../src/shared/batch-wire.js';
import { fakeCompletion } from '../../src/workers/fake-tokens.js';
import { LIMITS, SchedulerHarness } from '../support/scheduler-harness.js';

const letters = (count: number, first = 65) => Array.from({ length: count }, (_, i) => first + (i % 26));

t.test('requests with the same new prefix wait for the first one instead of all computing it', async (t) => {
  const harness = new SchedulerHarness(LIMITS);
  const shared = letters(200);
  for (let id = 1; id <= 4; id++) harness.submit(id, [...shared, 90 - id, 97]);
  harness.drain();
  t.equal(harness.outcome(1).cachedTokens, 0);
  for (let id = 2; id <= 4; id++) {
    // Less than a small chunk is not waited for: the last tokens of the prefix may be computed twice.
    t.ok(harness.outcome(id).cachedTokens > 200 - 64);
    t.same(harness.outcome(id).tokens, fakeCompletion([...shared, 90 - id, 97], 16));
  }
});

t.test('one that waits for a prefix lets others pass', async (t) => {
  const harness = new SchedulerHarness(LIMITS);
  harness.submit(1, letters(300));
  harness.submit(2, letters(300));
  harness.submit(3, letters(10, 97));
  harness.plan();
  harness.plan();
  harness.run();
  harness.run();
  t.equal(harness.outcome(3).cachedTokens, 0, 'it has left the queue');
  t.equal(harness.outcome(2).cachedTokens, -1, 'it waits');
  harness.drain();
  t.ok(harness.outcome(2).cachedTokens > 300 - 1 - 64, `${harness.outcome(2).cachedTokens} tokens`);
});

t.test('a long prefix is not destroyed for a small match while there is another home', async (t) => {
  const harness = new SchedulerHarness({ ...LIMITS, sequences: 2, runningCap: 2 });
  harness.submit(1, letters(400), { params: { maxTokens: 1 } });
  harness.drain();
  harness.submit(2, [...letters(40), 97, 98, 99], { params: { maxTokens: 1 } });
  harness.drain();
  t.equal(harness.outcome(2).cachedTokens, 40);
  harness.submit(3, [...letters(400), 97], { params: { maxTokens: 1 } });
  harness.drain();
  t.equal(harness.outcome(3).cachedTokens, 400, 'the long one is still there');
});

t.test('the same prompt twice is not stored twice', async (t) => {
  const harness = new SchedulerHarness({ ...LIMITS, layout: 'private', cells: 512 });
  for (let id = 1; id <= 2; id++) harness.submit(id, letters(100), { params: { maxTokens: 1 } });
  harness.drain();
  t.equal(harness.scheduler.cellCounts().cached, 100);
});

t.test(
  'idle prefixes are evicted before the prefill that needs their cells, least valuable first, no more than needed',
  async (t) => {
    const harness = new SchedulerHarness({ ...LIMITS, cells: 768 });
    for (let id = 1; id <= 3; id++) {
      harness.submit(id, letters(200, 65 + id * 7), { params: { maxTokens: 1 } });
      harness.drain();
    }
    harness.ops.length = 0;
    harness.submit(4, letters(350, 97), { params: { maxTokens: 1 } });
    harness.drain();
    t.same(harness.outcome(4).tokens, fakeCompletion(letters(350, 97), 1));
    const evicted = harness.ops.filter(([kind]) => kind === OP_KIND.evict).map(([, sequence]) => sequence);
    t.same(evicted, [0], 'one was enough, and it is the oldest');
  },
);

t.test('a prefix that requests branch off outlives one that was used later and never again', async (t) => {
  const harness = new SchedulerHarness({ ...LIMITS, cells: 768, sequences: 6, runningCap: 2 });
  const system = letters(200);
  for (let id = 1; id <= 3; id++) {
    harness.submit(id, [...system, ...letters(40, 97 + id)], { params: { maxTokens: 1 } });
    harness.drain();
    harness.nowMs += 1000;
  }
  harness.submit(4, letters(200, 75), { params: { maxTokens: 1 } });
  harness.drain();
  harness.nowMs += 1000;
  harness.submit(5, letters(400, 97), { params: { maxTokens: 1 } });
  harness.drain();
  const cachedOf = (id: number, prompt: number[]) => {
    harness.submit(id, prompt, { params: { maxTokens: 1 } });
    harness.drain();
    return harness.outcome(id).cachedTokens;
  };
  t.equal(cachedOf(6, [...system, 66, 66]), 200, 'the one that was asked for is still there');
  t.equal(cachedOf(7, [...letters(200, 75), 66]), 0, 'the later one went');
});

t.test('each turn of a conversation is not a hit: one that is over goes before one that has begun', async (t) => {
  const harness = new SchedulerHarness({ ...LIMITS, sequences: 2, runningCap: 1 });
  let said = letters(50);
  for (let id = 1; id <= 5; id++) {
    harness.submit(id, said, { params: { maxTokens: 2 } });
    harness.drain();
    said = [...said, ...harness.outcome(id).tokens, ...letters(10, 70 + id)];
    harness.nowMs += 1000;
  }
  const begun = letters(50, 97);
  harness.submit(6, begun, { params: { maxTokens: 1 } });
  harness.drain();
  harness.nowMs += 1000;
  harness.submit(7, letters(50, 80), { params: { maxTokens: 1 } });
  harness.drain();
  harness.submit(8, [...begun, 65, 66], { params: { maxTokens: 1 } });
  harness.drain();
  t.equal(harness.outcome(8).cachedTokens, 50);
});

t.test('the matched prefix is never the one that goes', async (t) => {
  const harness = new SchedulerHarness({ ...LIMITS, cells: 512 });
  harness.submit(1, letters(200), { params: { maxTokens: 1 } });
  harness.drain();
  harness.submit(2, letters(200, 97), { params: { maxTokens: 1 } });
  harness.drain();
  harness.submit(3, [...letters(200), ...letters(200, 70)], { params: { maxTokens: 1 } });
  harness.drain();
  t.equal(harness.outcome(3).cachedTokens, 200);
});

t.test('where ends cannot be removed, only a whole sequence is a prefix', async (t) => {
  const harness = new SchedulerHarness({ ...LIMITS, canTrim: false });
  harness.submit(1, letters(100), { params: { maxTokens: 4 } });
  harness.drain();
  const answer = harness.outcome(1).tokens;
  harness.submit(2, [...letters(100), ...answer, 97, 98], { params: { maxTokens: 4 } });
  harness.submit(3, [...letters(50), 97, 98], { params: { maxTokens: 4 } });
  harness.drain();
  t.equal(harness.outcome(2).cachedTokens, 103, 'the next turn goes on');
  t.equal(harness.outcome(3).cachedTokens, 0, 'a fork starts anew');
});
