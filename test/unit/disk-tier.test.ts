import fc from 'fast-check';
import t from 'tap';
import type { SchedulerLimits } from '../../src/shared/scheduler/limits.js';
import { fakeCompletion } from '../../src/workers/fake-tokens.js';
import { MemoryDisk } from '../support/memory-disk.js';
import { LIMITS, SchedulerHarness } from '../support/scheduler-harness.js';

const letters = (count: number, first = 65) => Array.from({ length: count }, (_, i) => first + (i % 26));
const ONE = { params: { maxTokens: 1 } };
/** Of a prefix of 200 tokens, as the books expect it. */
const FILE_BYTES = 200 * 136 + 4096;

/** Two streams, so that a third conversation evicts one. */
const streams: SchedulerLimits = {
  ...LIMITS,
  layout: 'private',
  sequences: 2,
  runningCap: 2,
  cells: 512,
  cellBytes: 100,
};

function withDisk(bound = 1e6, left?: MemoryDisk['files'], limits = streams) {
  const harness = new SchedulerHarness(limits);
  harness.scheduler.setHostPrefixBudget(1e6, 0);
  return { harness, disk: new MemoryDisk(harness, bound, left) };
}
type Place = ReturnType<typeof withDisk>;

/** Asks, with a disk that does everything at once. Returns the tokens that need not be computed. */
function say({ harness, disk }: Place, id: number, prompt: number[], cacheSalt = 0): number {
  harness.submit(id, prompt, { ...ONE, cacheSalt });
  do harness.drain();
  while (disk.step());
  harness.nowMs += 100;
  t.same(harness.outcome(id).tokens, fakeCompletion(prompt, 1), `answer ${id} is what it would be without a cache`);
  return harness.outcome(id).cachedTokens;
}

/** Nothing is asked for so many seconds, or a shutdown waits. */
function rest({ harness, disk }: Place, seconds: number): void {
  for (let i = 0; i < seconds * 10; i++) {
    harness.nowMs += 100;
    harness.drain();
    while (disk.step()) harness.drain();
  }
}

function agree(t: Tap.Test, { harness, disk }: Place): void {
  t.same(harness.prefixes.slots.sort(), harness.scheduler.hostPrefix.slots.sort(), 'the books know what is in memory');
  t.ok(disk.bytes <= disk.boundBytes, 'the bound is kept');
}

namespace Tap {
  export type Test = Pick<typeof t, 'same' | 'ok'>;
}

t.test('what was evicted or idle comes back after a restart', async (t) => {
  const before = withDisk();
  for (const id of [1, 2, 3]) say(before, id, letters(200, 65 + id * 5));
  t.equal(before.disk.files.size, 1, 'the evicted one');
  rest(before, 3);
  t.equal(before.disk.files.size, 3, 'and those in cells');
  t.ok(before.harness.scheduler.isWritten);
  agree(t, before);
  t.equal(before.harness.prefixes.slots.length, 1, 'which leave host memory again');
  const after = withDisk(1e6, before.disk.files);
  for (const id of [1, 2, 3]) t.equal(say(after, id, [...letters(200, 65 + id * 5), 120]), 200);
  t.equal(after.harness.scheduler.counters.diskPrefixHits, 3);
  t.equal(say(after, 4, [...letters(200, 70), 121], 7), 0, 'another salt');
  agree(t, after);
});

t.test('a pause is needed for what is idle, but not at a shutdown', async (t) => {
  const place = withDisk();
  say(place, 1, letters(200));
  rest(place, 0.5);
  t.equal(place.disk.files.size, 0);
  t.notOk(place.harness.scheduler.isWritten);
  place.harness.scheduler.hurryWrites();
  rest(place, 0.1);
  t.equal(place.disk.files.size, 1);
});

t.test('a conversation that grew has one file; what a file contains is not written again', async (t) => {
  const place = withDisk();
  say(place, 1, letters(200));
  rest(place, 2);
  say(place, 2, letters(300));
  rest(place, 2);
  t.same(
    [...place.disk.files.values()].map(({ tokens }) => tokens.length),
    [300],
  );
  const { diskPrefixSaves } = place.harness.scheduler.counters;
  rest(place, 5);
  t.equal(place.harness.scheduler.counters.diskPrefixSaves, diskPrefixSaves);
});

t.test('the least valuable file goes for a new one', async (t) => {
  const place = withDisk(2 * FILE_BYTES + 100);
  for (const id of [1, 2, 3, 4]) {
    say(place, id, letters(200, 65 + id * 5));
    rest(place, 3);
    agree(t, place);
  }
  t.same(
    [...place.disk.files.values()].map(({ tokens }) => tokens[0]),
    [80, 85],
  );
  t.equal(place.harness.scheduler.counters.diskPrefixEvictions, 2);
});

t.test('a damaged file, one that is gone and one that does not come cost a computation', async (t) => {
  const before = withDisk();
  for (const id of [1, 2, 3]) say(before, id, letters(200, 65 + id * 5));
  rest(before, 3);
  const after = withDisk(1e6, before.disk.files);
  after.disk.damageReads = true;
  t.equal(say(after, 1, [...letters(200, 70), 120]), 0);
  t.equal(after.harness.scheduler.counters.diskPrefixErrors, 1);
  after.disk.damageReads = false;
  const [gone] = [...after.disk.files.values()].filter(({ tokens }) => tokens[0] === 75);
  after.disk.files.delete(gone.id);
  t.equal(say(after, 2, [...letters(200, 75), 120]), 0);
  t.equal(after.harness.scheduler.counters.diskPrefixErrors, 2);
  agree(t, after);

  const { harness, disk } = after;
  harness.submit(3, [...letters(200, 80), 120], ONE);
  harness.drain();
  t.equal(harness.outcome(3).end, '', 'it waits');
  harness.nowMs += 10_000;
  harness.drain();
  t.equal(harness.outcome(3).cachedTokens, 0, 'and no longer than that');
  while (disk.step()) harness.drain();
  agree(t, after);
});

t.test('host memory that is needed elsewhere ends a read, begun or not', async (t) => {
  const before = withDisk();
  for (const id of [1, 2, 3]) say(before, id, letters(200, 65 + id * 5));
  rest(before, 3);
  for (const steps of [0, 1]) {
    const after = withDisk(1e6, before.disk.files);
    const { harness, disk } = after;
    harness.submit(1, [...letters(200, 70), 120], ONE);
    harness.drain();
    disk.take();
    for (let i = 0; i < steps; i++) disk.step();
    harness.scheduler.emptyHostTier(harness.nowMs);
    do harness.drain();
    while (disk.step());
    harness.nowMs += 20_000;
    do harness.drain();
    while (disk.step());
    t.same(harness.outcome(1).tokens, fakeCompletion([...letters(200, 70), 120], 1));
    t.same(harness.prefixes.slots, []);
    t.equal(harness.prefixes.bytes, 0);
    agree(t, after);
  }
});

t.test('after a write that failed the disk is left alone for a while', async (t) => {
  const place = withDisk();
  place.disk.failWrites = true;
  for (const id of [1, 2, 3, 4]) say(place, id, letters(200, 65 + id * 5));
  rest(place, 5);
  t.equal(place.harness.scheduler.counters.diskPrefixErrors, 1);
  t.ok(place.harness.scheduler.isWritten, 'a shutdown does not wait for it');
  place.disk.failWrites = false;
  rest(place, 70);
  t.ok(place.disk.files.size > 0);
});

t.test('without a disk nothing is ordered', async (t) => {
  const harness = new SchedulerHarness(streams);
  harness.scheduler.setHostPrefixBudget(1e6, 0);
  for (const id of [1, 2, 3]) {
    harness.submit(id, letters(200, 65 + id * 5), ONE);
    harness.drain();
    harness.nowMs += 5_000;
    harness.drain();
  }
  t.same(harness.scheduler.disk.commands, []);
  t.ok(harness.scheduler.isWritten);
  t.equal(harness.scheduler.counters.hostPrefixSaves, 1);
});

/** A step of the fuzz: a request for a chat and how long it is, time that passes, or memory that comes and goes. */
const action = fc.oneof(
  { weight: 6, arbitrary: fc.record({ chat: fc.nat(5), tokens: fc.integer({ min: 70, max: 400 }) }) },
  { weight: 4, arbitrary: fc.record({ diskSteps: fc.nat(4) }) },
  { weight: 2, arbitrary: fc.record({ passMs: fc.nat(3000) }) },
  { weight: 2, arbitrary: fc.record({ budget: fc.integer({ min: 40_000, max: 120_000 }) }) },
  { weight: 1, arbitrary: fc.record({ empties: fc.constant(true) }) },
  { weight: 1, arbitrary: fc.record({ moves: fc.constant(true) }) },
);

t.test('whatever happens in whatever order: answers are right, books and bytes agree, the bound is kept', async (t) => {
  let hits = 0;
  const before = withDisk();
  for (const chat of [0, 1, 2, 3]) say(before, chat + 1, letters(300, 65 + chat * 7));
  rest(before, 5);
  fc.assert(
    fc.property(fc.array(action, { maxLength: 60 }), (actions) => {
      const place = withDisk(200_000, before.disk.files);
      const { harness, disk } = place;
      const asked: number[][] = [];
      for (const step of actions) {
        if ('chat' in step) {
          const prompt = letters(step.tokens, 65 + step.chat * 7);
          harness.submit(asked.push(prompt), prompt, ONE);
        } else if ('diskSteps' in step) for (let i = 0; i < step.diskSteps; i++) disk.step();
        else if ('passMs' in step) harness.nowMs += step.passMs;
        else if ('budget' in step) harness.scheduler.setHostPrefixBudget(step.budget, harness.nowMs);
        else if ('empties' in step) harness.scheduler.emptyHostTier(harness.nowMs);
        else if (harness.recordsInFlight === 0) harness.moveContext(512);
        harness.drain();
        if (disk.bytes > disk.boundBytes) throw new Error(`${disk.bytes} bytes of files`);
      }
      for (let i = 0; i < 200; i++) {
        while (disk.step()) harness.drain();
        harness.nowMs += 200;
        harness.drain();
        harness.prefixes.turnPump(0);
      }
      asked.forEach((prompt, id) => {
        const { tokens, end } = harness.outcome(id + 1);
        if (end === '' || `${tokens}` !== `${fakeCompletion(prompt, 1)}`)
          throw new Error(`answer ${id + 1}: ${end} ${tokens}`);
      });
      const [inMemory, inBooks] = [harness.prefixes.slots, harness.scheduler.hostPrefix.slots].map(
        (slots) => `${slots.sort()}`,
      );
      if (inMemory !== inBooks) throw new Error(`in memory ${inMemory}, in the books ${inBooks}`);
      const states = harness.prefixes.slots.length;
      if (states === 0 && harness.prefixes.bytes !== 0) throw new Error('bytes of nothing');
      hits += harness.scheduler.counters.diskPrefixHits;
    }),
    { numRuns: 300, seed: 20261130 },
  );
  t.ok(hits > 100, `${hits} prefixes came back from the disk`);
});
