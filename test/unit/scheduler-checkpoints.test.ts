/** Models whose sequences cannot be cut back: states saved at the ends of messages, from which other prompts go on. */
import t, { type Test } from 'tap';
import { BATCH_HEADER } from '../../src/shared/batch-wire.js';
import { TIER_MIN_TOKENS } from '../../src/shared/scheduler/host-tier.js';
import type { SchedulerLimits } from '../../src/shared/scheduler/limits.js';
import { TIER_OP_KIND } from '../../src/shared/tier-wire.js';
import { fakeCompletion } from '../../src/workers/fake-tokens.js';
import { LIMITS, SchedulerHarness, segmentsOf } from '../support/scheduler-harness.js';

const CELL_BYTES = 100;
const STATE_BYTES = 5000;
const bytesOf = (tokens: number) => tokens * (CELL_BYTES + 32) + STATE_BYTES;
const letters = (count: number, first = 65) => Array.from({ length: count }, (_, i) => first + (i % 26));
const ONE = { maxTokens: 1 };

const whole: SchedulerLimits = { ...LIMITS, canTrim: false, cellBytes: CELL_BYTES, stateBytes: STATE_BYTES };

function withCheckpoints(limits = whole, fake = {}, bytes = 1e6): SchedulerHarness {
  const harness = new SchedulerHarness(limits, fake);
  harness.scheduler.setHostPrefixBudget(bytes, 0);
  return harness;
}

/** One turn; the answer must be the one without any cache. Returns how much of the prompt was there. */
function say(
  t: Test,
  harness: SchedulerHarness,
  id: number,
  prompt: number[],
  boundaries: number[],
  options: { maxTokens?: number; cacheSalt?: number } = {},
): number {
  const { maxTokens = 4, cacheSalt = 0 } = options;
  harness.submit(id, prompt, { boundaries, cacheSalt, params: { maxTokens } });
  harness.drain();
  harness.nowMs += 1000;
  t.same(harness.outcome(id).tokens, fakeCompletion(prompt, maxTokens), `answer ${id}`);
  return harness.outcome(id).cachedTokens;
}

for (const layout of ['shared', 'private'] as const) {
  t.test(`${layout}: conversations with one system prompt compute it once`, async (t) => {
    const harness = withCheckpoints({ ...whole, layout });
    const system = letters(150);
    t.equal(say(t, harness, 1, [...system, 97, 98], [150]), 0);
    t.equal(say(t, harness, 2, [...system, 99, 100], [150]), 150);
    t.equal(say(t, harness, 3, [...system, 101], [150]), 150, 'it stays for the next');
    t.equal(harness.scheduler.hostPrefix.slots.length, 1);
    t.equal(harness.prefixes.bytes > 0, true);
  });
}

t.test('the next turn goes on from the end of the last, however its client writes the answer', async (t) => {
  const harness = withCheckpoints();
  const first = letters(130);
  t.equal(say(t, harness, 1, [...first, 97], [130]), 0);
  const second = [...first, 97, 120, 121, ...letters(100, 70)];
  t.equal(say(t, harness, 2, [...second, 97], [second.length]), 130);
  t.equal(say(t, harness, 3, [...second, 97, 122, ...letters(20)], []), second.length, 'and so on');
});

t.test('an answer that comes back unchanged goes on in its own cells', async (t) => {
  const harness = withCheckpoints();
  const first = [...letters(130), 97];
  say(t, harness, 1, first, [130]);
  const { tokens } = harness.outcome(1);
  t.equal(say(t, harness, 2, [...first, ...tokens, 99], []), 134);
});

t.test('a prompt is cut exactly at its boundaries, and saved before anything follows', async (t) => {
  const harness = withCheckpoints();
  harness.submit(1, letters(200), { boundaries: [70, 150], params: ONE });
  const pieces: number[] = [];
  const savedAt: number[] = [];
  while (harness.plan()) {
    const record = harness.lastRecord;
    const [segment] = segmentsOf(record);
    for (let at = record[BATCH_HEADER.totalWords]; at < record.length; at += 3)
      if (record[at] === TIER_OP_KIND.save) savedAt.push(segment[1]);
    pieces.push(segment[2]);
    harness.run();
  }
  t.same(pieces, [64, 6, 64, 16, 50]);
  t.same(savedAt, [70, 150]);
});

t.test('what is too short, or known already, cuts nothing', async (t) => {
  const harness = withCheckpoints();
  const pieces = (id: number, prompt: number[], boundaries: number[]) => {
    harness.submit(id, prompt, { boundaries, params: ONE });
    const counts: number[] = [];
    while (harness.plan()) {
      const [segment] = segmentsOf(harness.lastRecord);
      if (segment) counts.push(segment[2]);
      harness.run();
    }
    return counts;
  };
  t.same(pieces(1, letters(120), [TIER_MIN_TOKENS - 1]), [64, 56]);
  t.same(pieces(2, letters(120, 97), [100, 110]), [64, 36, 20], 'of two that are near the first counts');
  t.same(pieces(3, letters(120, 97), [100, 110]), [20], 'the same again');
  t.equal(harness.scheduler.counters.hostPrefixSaves, 1);
});

t.test('only a whole checkpoint serves, and none of another salt', async (t) => {
  const harness = withCheckpoints();
  say(t, harness, 1, letters(160), [150]);
  t.equal(say(t, harness, 2, [...letters(140), 120], []), 0, 'it is longer than what is shared');
  t.equal(say(t, harness, 3, letters(170), [], { cacheSalt: 7 }), 0);
  t.equal(say(t, harness, 4, letters(151), []), 150);
});

t.test('without memory for them nothing is cut or saved', async (t) => {
  const harness = withCheckpoints(whole, {}, 0);
  say(t, harness, 1, letters(160), [100]);
  t.equal(say(t, harness, 2, [...letters(100), 120], [100]), 0);
  t.equal(harness.scheduler.counters.hostPrefixSaves, 0);
  const small = withCheckpoints(whole, {}, bytesOf(100) - 1);
  say(t, small, 1, letters(160), [100]);
  t.equal(small.scheduler.counters.hostPrefixSaves, 0, 'the state beside the cells counts');
});

t.test('models that can roll back take none', async (t) => {
  const harness = withCheckpoints({ ...whole, canTrim: true });
  say(t, harness, 1, letters(160), [100]);
  t.equal(harness.scheduler.counters.hostPrefixSaves, 0);
});

t.test('what many begin with outlives the turns of conversations', async (t) => {
  const harness = withCheckpoints(whole, {}, 2 * bytesOf(150));
  const system = letters(150);
  say(t, harness, 1, [...system, 120], [150]);
  t.equal(say(t, harness, 2, [...system, 121], [150]), 150);
  for (const id of [3, 4, 5]) say(t, harness, id, letters(151, 97 + id), [150]);
  t.equal(say(t, harness, 9, [...system, 122], [150]), 150);
  const { heldBytes, budgetBytes } = harness.scheduler.hostPrefix;
  t.ok(heldBytes > 0 && heldBytes <= budgetBytes);
});

t.test('of one conversation, the last turn is worth the most', async (t) => {
  const harness = withCheckpoints(whole, {}, bytesOf(150) + bytesOf(230) + 1);
  const first = letters(150);
  say(t, harness, 1, [...first, 97], [150]);
  const second = [...first, 97, 120, ...letters(78, 70)];
  t.equal(say(t, harness, 2, [...second, 97], [80, second.length]), 150);
  say(t, harness, 3, letters(141, 100), [140]);
  t.equal(say(t, harness, 4, [...second, 97, 121, ...letters(20)], []), second.length);
});

t.test('a whole tile of attention is no reason to take less of a checkpoint', async (t) => {
  const harness = withCheckpoints({ ...whole, cells: 2048, contextTokens: 1024, tileTokens: 64 });
  say(t, harness, 1, letters(601), [600]);
  t.equal(say(t, harness, 2, [...letters(600), ...letters(45, 97)], [600]), 600);
});

t.test('a save or a restore that fails costs a computation', async (t) => {
  const unsaved = withCheckpoints(whole, { failSave: [1] });
  say(t, unsaved, 1, letters(160), [100]);
  t.equal(unsaved.failedCopies, 1);
  t.equal(say(t, unsaved, 2, [...letters(100), 120], [100]), 0);
  t.equal(say(t, unsaved, 3, [...letters(100), 121], [100]), 100, 'the second one saved it');
  const lost = withCheckpoints(whole, { failRestore: [1] });
  say(t, lost, 1, letters(160), [100]);
  t.equal(say(t, lost, 2, [...letters(100), 120], [100]), 0);
  t.equal(say(t, lost, 3, [...letters(100), 121], [100]), 100, 'it is taken anew');
});

t.test('a preempted request comes back from its own checkpoint', async (t) => {
  const harness = withCheckpoints({ ...whole, cells: 256, contextTokens: 256, sequences: 2, runningCap: 2 });
  const long = { maxTokens: 60, ignoreEos: true };
  harness.submit(1, letters(90), { boundaries: [80], params: long });
  harness.submit(2, letters(90, 97), { boundaries: [80], params: long });
  harness.drain();
  for (const [id, prompt] of [
    [1, letters(90)],
    [2, letters(90, 97)],
  ] as const)
    t.same(harness.outcome(id).tokens, fakeCompletion(prompt, 60, { ignoreEos: true }));
  t.ok(harness.scheduler.counters.preemptions > 0);
  t.ok(harness.scheduler.counters.hostPrefixHits > 0);
});

t.test('checkpoints survive a context that moves', async (t) => {
  const harness = withCheckpoints();
  say(t, harness, 1, letters(160), [100]);
  harness.moveContext(512);
  t.equal(say(t, harness, 2, [...letters(100), 120], [100]), 100);
});

t.test('requests that come together compute what they share once', async (t) => {
  const harness = withCheckpoints();
  const prompts = [97, 98, 99].map((last) => [...letters(150), last]);
  prompts.forEach((prompt, i) => {
    harness.submit(i + 1, prompt, { boundaries: [150], params: { maxTokens: 4 } });
  });
  harness.drain();
  prompts.forEach((prompt, i) => {
    t.same(harness.outcome(i + 1).tokens, fakeCompletion(prompt, 4));
    t.equal(harness.outcome(i + 1).cachedTokens, i === 0 ? 0 : 150);
  });
});

t.test('who waits for a checkpoint goes on without it when its request is cancelled', async (t) => {
  const harness = withCheckpoints();
  harness.submit(1, [...letters(150), 97], { boundaries: [150], params: ONE });
  harness.submit(2, [...letters(150), 98], { boundaries: [150], params: ONE });
  harness.plan();
  harness.run();
  t.equal(harness.scheduler.runningCount, 1);
  harness.scheduler.cancel(1);
  harness.drain();
  t.same(harness.outcome(2).tokens, fakeCompletion([...letters(150), 98], 1));
  t.equal(harness.outcome(2).cachedTokens, 64, 'in the cells that were left');
});
