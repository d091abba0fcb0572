import t from 'tap';
import { GIB, MIB } from '../../src/shared/memory/constants.js';
import { hostTierBudgetBytes } from '../../src/shared/memory/host-tier-budget.js';
import type { SchedulerLimits } from '../../src/shared/scheduler/limits.js';
import { fakeCompletion } from '../../src/workers/fake-tokens.js';
import { LIMITS, SchedulerHarness } from '../support/scheduler-harness.js';

const CELL_BYTES = 100;
/** With the notes on a token. */
const TOKEN_BYTES = 132;
const letters = (count: number, first = 65) => Array.from({ length: count }, (_, i) => first + (i % 26));
const ONE = { params: { maxTokens: 1 } };

/** Two streams, so that a third conversation evicts one. */
const streams: SchedulerLimits = {
  ...LIMITS,
  layout: 'private',
  sequences: 2,
  runningCap: 2,
  cells: 512,
  cellBytes: CELL_BYTES,
};

function withTier(limits = streams, fake = {}, bytes = 1e6): SchedulerHarness {
  const harness = new SchedulerHarness(limits, fake);
  harness.scheduler.setHostPrefixBudget(bytes, 0);
  return harness;
}

function say(harness: SchedulerHarness, id: number, prompt: number[]): number {
  harness.submit(id, prompt, ONE);
  harness.drain();
  harness.nowMs += 1000;
  t.same(harness.outcome(id).tokens, fakeCompletion(prompt, 1), `answer ${id} is what it would be without a cache`);
  return harness.outcome(id).cachedTokens;
}

for (const layout of ['private', 'shared'] as const) {
  t.test(`${layout}: more conversations than cells for them come back from host memory`, async (t) => {
    const harness = withTier({ ...streams, layout, cells: 512 });
    const chats = [0, 1, 2, 3, 4].map((i) => letters(200, 65 + i * 5));
    let id = 0;
    for (const chat of chats) t.equal(say(harness, ++id, chat), 0);
    for (const [i, chat] of chats.entries()) {
      const turn = [...chat, 120, 121];
      t.equal(say(harness, ++id, turn), 200, `chat ${i}`);
      chats[i] = turn;
    }
    for (const chat of chats) t.equal(say(harness, ++id, [...chat, 122]), 202);
    t.ok(harness.scheduler.counters.hostPrefixHits >= 6);
    t.ok(harness.scheduler.hostPrefix.slots.length <= chats.length, 'no conversation is stored twice');
    t.same(harness.scheduler.hostPrefix.slots, harness.prefixes.slots);
  });
}

t.test('without memory for it, all is as before', async (t) => {
  const harness = withTier(streams, {}, 0);
  for (const id of [1, 2, 3]) say(harness, id, letters(200, 65 + id * 5));
  t.equal(say(harness, 4, letters(200, 70)), 0);
  t.equal(harness.scheduler.counters.hostPrefixSaves, 0);
});

t.test('a small match is no reason to fetch a prefix, and takes it from nobody', async (t) => {
  const harness = withTier();
  for (const id of [1, 2, 3]) say(harness, id, letters(200, 65 + id * 5));
  const saved = harness.scheduler.hostPrefix.slots;
  t.equal(saved.length, 1);
  t.equal(say(harness, 4, [...letters(40, 70), 120]), 0, '40 tokens of it are computed');
  t.ok(harness.scheduler.hostPrefix.slots.includes(saved[0]));
  t.equal(say(harness, 5, [...letters(120, 70), 120]), 120, 'more than half of it is fetched');
  t.ok(harness.scheduler.hostPrefix.slots.includes(saved[0]), 'and the whole stays for its own conversation');
  t.equal(say(harness, 6, [...letters(200, 70), 120]), 200);
  t.notOk(harness.scheduler.hostPrefix.slots.includes(saved[0]), 'which takes it with it');
});

t.test('a prefix of another salt is not fetched', async (t) => {
  const harness = withTier();
  for (const id of [1, 2, 3]) say(harness, id, letters(200, 65 + id * 5));
  harness.submit(4, letters(200, 70), { ...ONE, cacheSalt: 7 });
  harness.drain();
  t.equal(harness.outcome(4).cachedTokens, 0);
});

t.test('a save that finds no memory, and a restore that fails, cost a computation', async (t) => {
  const unsaved = withTier(streams, { failSave: [1] });
  for (const id of [1, 2, 3]) say(unsaved, id, letters(200, 65 + id * 5));
  t.equal(say(unsaved, 4, [...letters(200, 70), 120]), 0);
  t.equal(unsaved.failedCopies, 1);
  const lost = withTier(streams, { failRestore: [1] });
  for (const id of [1, 2, 3]) say(lost, id, letters(200, 65 + id * 5));
  const saved = lost.scheduler.hostPrefix.slots;
  t.equal(say(lost, 4, [...letters(200, 70), 120]), 0);
  t.equal(lost.failedCopies, 1);
  t.notOk(lost.scheduler.hostPrefix.slots.includes(saved[0]), 'it is not tried again');
  t.same(lost.scheduler.hostPrefix.slots, lost.prefixes.slots);
});

t.test('one of two copies of a prefix fails: both requests are answered', async (t) => {
  for (const failing of [1, 2]) {
    const harness = withTier(streams, { failRestore: [failing] });
    for (const id of [1, 2, 3, 4]) say(harness, id, letters(200, 65 + id * 5));
    const turns = [120, 121].map((last) => [...letters(120, 70), last]);
    turns.forEach((turn, i) => {
      harness.submit(10 + i, turn, ONE);
    });
    harness.drain();
    t.equal(harness.scheduler.counters.hostPrefixHits, 2);
    t.equal(harness.failedCopies, 1);
    turns.forEach((turn, i) => {
      t.same(harness.outcome(10 + i).tokens, fakeCompletion(turn, 1));
    });
  }
});

t.test('a budget that shrinks takes the least valuable first, without a request', async (t) => {
  const harness = withTier();
  for (const id of [1, 2, 3, 4, 5]) say(harness, id, letters(200, 65 + id * 5));
  const [oldest, , newest] = harness.scheduler.hostPrefix.slots;
  harness.scheduler.setHostPrefixBudget(200 * TOKEN_BYTES, harness.nowMs);
  t.ok(harness.plan(), 'a record goes out for it alone');
  harness.run();
  t.same(harness.prefixes.slots, [newest]);
  t.notOk(harness.prefixes.slots.includes(oldest));
  harness.scheduler.setHostPrefixBudget(0, harness.nowMs);
  harness.drain();
  t.equal(harness.prefixes.bytes, 0);
});

t.test('a larger context that only the tier stands in the way of gets its memory', async (t) => {
  const limits = { ...LIMITS, cells: 512, cellsMax: 2048, sequences: 4, cellBytes: CELL_BYTES };
  const harness = withTier(limits);
  for (const id of [1, 2, 3, 4]) say(harness, id, letters(200, 65 + id * 5));
  t.ok(harness.prefixes.bytes > 0);
  harness.scheduler.tierHoldsGrowth = true;
  say(harness, 5, letters(300, 100));
  t.equal(harness.prefixes.bytes, 0);
  harness.scheduler.setHostPrefixBudget(1e6, harness.nowMs - 900);
  say(harness, 6, letters(300, 80));
  t.equal(harness.prefixes.bytes, 0, 'it does not fill up again before a reading shows the larger context');
});

t.test('it survives a context that moves, and not one that is put away', async (t) => {
  const harness = withTier();
  for (const id of [1, 2, 3]) say(harness, id, letters(200, 65 + id * 5));
  harness.moveContext(512);
  t.equal(say(harness, 4, [...letters(200, 70), 120]), 200);
  harness.scheduler.putAway();
  t.same(harness.scheduler.hostPrefix.slots, []);
  t.equal(harness.scheduler.hostPrefix.heldBytes, 0);
});

t.test('beside running answers a copy stays within the time between their tokens', async (t) => {
  const harness = withTier({ ...streams, targetItlMicros: 1 });
  for (const id of [1, 2, 3]) say(harness, id, letters(200, 65 + id * 5));
  t.equal(harness.scheduler.counters.hostPrefixSaves, 1, 'alone, it takes its time');
  harness.submit(4, letters(20, 97), { params: { maxTokens: 60, ignoreEos: true } });
  harness.plan();
  harness.run();
  const { hostPrefixSaves } = harness.scheduler.counters;
  harness.submit(5, [...letters(200, 70), 120], ONE);
  harness.drain();
  t.equal(harness.outcome(5).cachedTokens, 0);
  t.equal(harness.scheduler.counters.hostPrefixSaves, hostPrefixSaves);
});

t.test(
  'the budget: half of what is free above the margin, all of it back before headroom reaches the margin',
  async (t) => {
    const state = {
      mostBytes: 8 * GIB,
      heldBytes: 0,
      headroomBytes: 1000 * MIB,
      limitBytes: 0,
      marginBytes: 200 * MIB,
      pressureLevel: 0,
    };
    t.equal(hostTierBudgetBytes(state), 400 * MIB);
    t.equal(
      hostTierBudgetBytes({ ...state, heldBytes: 400 * MIB, headroomBytes: 600 * MIB }),
      400 * MIB,
      'it is stable',
    );
    t.equal(hostTierBudgetBytes({ ...state, heldBytes: 400 * MIB, headroomBytes: 200 * MIB }), 200 * MIB);
    t.equal(hostTierBudgetBytes({ ...state, headroomBytes: 200 * MIB }), 0);
    t.equal(hostTierBudgetBytes({ ...state, headroomBytes: 100 * GIB }), 8 * GIB);
    t.equal(hostTierBudgetBytes({ ...state, mostBytes: 0 }), 0);
    t.equal(hostTierBudgetBytes({ ...state, pressureLevel: 2 }), 0);
    t.ok(hostTierBudgetBytes({ ...state, marginBytes: 0 }) < 500 * MIB, 'beside a card it keeps a margin of its own');
  },
);

t.test('a prefix that is about to come back is not given up for the one that makes room for it', async (t) => {
  const harness = withTier(streams, {}, 250 * TOKEN_BYTES);
  for (const id of [1, 2, 3]) say(harness, id, letters(200, 65 + id * 5));
  t.equal(say(harness, 4, [...letters(200, 70), 120]), 200);
});
