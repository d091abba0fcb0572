import t from 'tap';
import { LIMITS, SchedulerHarness } from '../support/scheduler-harness.js';

const letters = (count: number, first = 65) => Array.from({ length: count }, (_, i) => first + (i % 26));
const SHARED = letters(200);
/** Others' text: nothing of it is cached. */
const OTHER = letters(200, 97);
const ONE_PLACE = { ...LIMITS, layout: 'private', sequences: 1, sequencesMax: 1, runningCap: 1, cells: 512 } as const;
const SHORT = { params: { maxTokens: 1 } };

/** A harness with one place, where the shared text is cached. */
function withPrefix(limits: typeof LIMITS = ONE_PLACE): SchedulerHarness {
  const harness = new SchedulerHarness(limits);
  harness.submit(1, SHARED, SHORT);
  harness.drain();
  return harness;
}

/** Runs everything and tells in which order requests left the queue. */
function startedOrder(harness: SchedulerHarness): number[] {
  const order: number[] = [];
  const note = () => {
    for (const [id, { cachedTokens }] of harness.outcomes)
      if (id > 1 && cachedTokens >= 0 && !order.includes(id)) order.push(id);
  };
  for (let i = 0; i < 1000 && order.length < harness.outcomes.size - 1; i++) {
    harness.plan();
    harness.run();
    note();
  }
  return order;
}

t.test('one that goes on from a cached prefix goes before one that would take its place', async (t) => {
  const harness = withPrefix();
  harness.submit(2, OTHER, SHORT);
  harness.submit(3, [...SHARED.slice(0, 180), 200, 201], SHORT);
  t.same(startedOrder(harness), [3, 2]);
  t.equal(harness.outcome(3).cachedTokens, 180);
});

t.test('of several the one with the longest prefix', async (t) => {
  const harness = withPrefix();
  harness.submit(2, OTHER, SHORT);
  harness.submit(3, [...SHARED.slice(0, 100), 200, 201], SHORT);
  harness.submit(4, [...SHARED.slice(0, 180), 200, 201], SHORT);
  t.same(startedOrder(harness), [4, 3, 2]);
});

t.test('nobody is overtaken for ever, nor by one of lower priority', async (t) => {
  const harness = withPrefix();
  harness.submit(2, OTHER, SHORT);
  for (let id = 3; id <= 12; id++) harness.submit(id, [...SHARED.slice(0, 180), 200, id], SHORT);
  t.equal(startedOrder(harness).indexOf(2), 4);
  const ranked = withPrefix();
  ranked.submit(2, OTHER, { ...SHORT, priority: -1 });
  ranked.submit(3, [...SHARED.slice(0, 180), 200], SHORT);
  t.same(startedOrder(ranked), [2, 3]);
});

t.test('the queue keeps its order where nothing would be lost', async (t) => {
  const roomy = withPrefix({ ...ONE_PLACE, sequences: 2, sequencesMax: 2 });
  roomy.submit(2, OTHER, SHORT);
  roomy.submit(3, [...SHARED.slice(0, 180), 200], SHORT);
  t.same(startedOrder(roomy), [2, 3], 'there is a free place for the first');
  const small = withPrefix();
  small.submit(2, OTHER, SHORT);
  small.submit(3, [...SHARED.slice(0, 40), 200], SHORT);
  t.same(startedOrder(small), [2, 3], 'little is saved');
  const both = withPrefix();
  both.submit(2, [...SHARED.slice(0, 150), 200], SHORT);
  both.submit(3, [...SHARED.slice(0, 180), 200], SHORT);
  t.same(startedOrder(both), [2, 3], 'the first goes on from the same prefix');
});
