import fc from 'fast-check';
import t from 'tap';
import type { KvLayout } from '../../src/shared/engine.js';
import { startWordsMax } from '../../src/shared/pipeline-buffers.js';
import { fakeCompletion } from '../../src/workers/fake-tokens.js';
import { LIMITS, SchedulerHarness } from '../support/scheduler-harness.js';

const CELL_BYTES = 100;
const CELLS_MAX = 1280;
const CONTEXT_TOKENS = 512;
const MAX_WAIT_MS = 5_000;
/** As the scheduler has it: running requests none of which can go on give up one by one after so long. */
const STALL_MAX_MS = 10_000;

const letters = (count: number, first = 65) => Array.from({ length: count }, (_, i) => first + (i % 26));

const smallPool = { ...LIMITS, cells: 256, cellsMax: CELLS_MAX, cellBytes: CELL_BYTES };

t.test('a larger pool is asked for before cached prefixes go, if the ladder has one', async (t) => {
  const harness = new SchedulerHarness(smallPool);
  harness.submit(1, letters(200), { params: { maxTokens: 1 } });
  harness.drain();
  harness.scheduler.canGrow = true;
  harness.submit(2, letters(200, 97), { params: { maxTokens: 1 } });
  t.notOk(harness.plan());
  t.ok(harness.scheduler.wantedCells > 401, `${harness.scheduler.wantedCells} cells`);
  harness.scheduler.canGrow = false;
  harness.drain();
  t.equal(harness.scheduler.counters.evictions, 1, 'without it, they go');
  t.equal(harness.outcome(2).end, 'length');
});

t.test('growth that exceeds the headroom is not asked for while something runs', async (t) => {
  const harness = new SchedulerHarness(smallPool);
  harness.submit(1, letters(150), { params: { maxTokens: 20 } });
  harness.plan();
  harness.run();
  harness.submit(2, letters(200, 97), { params: { maxTokens: 1 } });
  harness.scheduler.canGrow = true;
  const wantedWith = (headroomBytes: number) => {
    harness.scheduler.headroomBytes = headroomBytes;
    harness.plan();
    harness.run();
    return harness.scheduler.wantedCells;
  };
  t.equal(wantedWith(50 * CELL_BYTES), 0);
  t.ok(wantedWith(500 * CELL_BYTES) > 256);
});

type Action =
  | { kind: 'submit'; length: number; opening: number; maxTokens: number }
  | { kind: 'reading'; headroomBytes: number; canGrow: boolean; tierHoldsGrowth: boolean }
  | { kind: 'move'; share: number }
  | { kind: 'plan' }
  | { kind: 'run' }
  | { kind: 'time'; ms: number };

const action: fc.Arbitrary<Action> = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant('submit' as const),
      length: fc.integer({ min: 1, max: CONTEXT_TOKENS - 40 }),
      opening: fc.integer({ min: 0, max: 4 }),
      maxTokens: fc.integer({ min: 1, max: 40 }),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('reading' as const),
      headroomBytes: fc.constantFrom(0, 50 * CELL_BYTES, 400 * CELL_BYTES, 1e12),
      canGrow: fc.boolean(),
      tierHoldsGrowth: fc.boolean(),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant('move' as const), share: fc.constantFrom(0.2, 0.4, 1) }),
  },
  { weight: 5, arbitrary: fc.constant({ kind: 'plan' as const }) },
  { weight: 5, arbitrary: fc.constant({ kind: 'run' as const }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('time' as const), ms: fc.integer({ min: 1, max: 2000 }) }) },
);

const world = fc.record({
  layout: fc.constantFrom<KvLayout>('shared', 'private'),
  canTrim: fc.boolean(),
  sequences: fc.integer({ min: 1, max: 4 }),
  actions: fc.array(action, { minLength: 20, maxLength: 120, size: 'max' }),
  /** What the readings say from the end of the actions on. */
  lastHeadroomBytes: fc.constantFrom(0, 400 * CELL_BYTES, 1e12),
});

/** Something runs, is freed or asked for; where the pool is whole, nothing but running requests may keep one waiting. */
function assertProgress({ scheduler, limits, recordsInFlight }: SchedulerHarness): void {
  const isIdle = recordsInFlight === 0 && scheduler.runningCount === 0;
  if (!isIdle || scheduler.waitingCount === 0 || scheduler.wantedCells > 0) return;
  if (limits.cells >= CONTEXT_TOKENS) throw new Error('a request waits beside nothing');
}

/** Lets time pass where nothing else can happen. Returns how long it took until every request had its end. */
function untilAllEnd(harness: SchedulerHarness): number {
  const startMs = harness.nowMs;
  while (harness.scheduler.activeCount > 0) {
    while (harness.recordsInFlight < 2 && harness.plan());
    assertProgress(harness);
    if (harness.recordsInFlight > 0) harness.run();
    else harness.nowMs += 100;
    if (harness.nowMs - startMs > 1e6) throw new Error('a request has no end');
  }
  return harness.nowMs - startMs;
}

t.test('any readings and requests: something runs, something is freed, or the wait has its bound', async (t) => {
  const seen = {
    length: 0,
    insufficientMemory: 0,
    evictions: 0,
    moves: 0,
    saves: 0,
    hostHits: 0,
    checkpoints: 0,
    checkpointHits: 0,
  };
  fc.assert(
    fc.property(world, (w) => {
      const harness = new SchedulerHarness({
        ...LIMITS,
        layout: w.layout,
        canTrim: w.canTrim,
        sequences: w.sequences,
        runningCap: w.sequences,
        cells: CELLS_MAX,
        cellsMax: CELLS_MAX,
        cellBytes: CELL_BYTES,
        stateBytes: w.canTrim ? 0 : 20 * CELL_BYTES,
        contextTokens: CONTEXT_TOKENS,
        startWords: startWordsMax(CONTEXT_TOKENS),
      });
      harness.scheduler.setHostPrefixBudget(1e12, 0);
      const submitted: { prompt: number[]; maxTokens: number }[] = [];
      for (const a of w.actions) {
        if (a.kind === 'submit') {
          submitted.push({ prompt: letters(a.length, 65 + a.opening), maxTokens: a.maxTokens });
          harness.submit(submitted.length, letters(a.length, 65 + a.opening), {
            boundaries: [70, 140].filter((count) => count <= a.length),
            maxWaitMs: MAX_WAIT_MS,
            params: { maxTokens: a.maxTokens, ignoreEos: true },
          });
        } else if (a.kind === 'reading') {
          harness.scheduler.headroomBytes = a.headroomBytes;
          harness.scheduler.canGrow = a.canGrow;
          harness.scheduler.tierHoldsGrowth = a.tierHoldsGrowth;
          harness.scheduler.setHostPrefixBudget(a.headroomBytes / 2, harness.nowMs);
        } else if (a.kind === 'move' && harness.recordsInFlight === 0) {
          harness.moveContext(CELLS_MAX * a.share);
          seen.moves++;
        } else if (a.kind === 'plan' && harness.recordsInFlight < 2) {
          harness.plan();
          assertProgress(harness);
        } else if (a.kind === 'run') harness.run();
        else if (a.kind === 'time') harness.nowMs += a.ms;
      }
      harness.scheduler.headroomBytes = w.lastHeadroomBytes;
      harness.scheduler.canGrow = false;
      const tookMs = untilAllEnd(harness);
      const boundMs = MAX_WAIT_MS + (STALL_MAX_MS + 1000) * Math.max(1, submitted.length);
      if (tookMs > boundMs) throw new Error(`it took ${tookMs} ms`);
      submitted.forEach(({ prompt, maxTokens }, i) => {
        const { tokens, end } = harness.outcome(i + 1);
        if (end !== 'length' && end !== 'insufficientMemory') throw new Error(`request ${i + 1} ended as '${end}'`);
        const expected = fakeCompletion(prompt, maxTokens, {}).slice(0, end === 'length' ? maxTokens : tokens.length);
        if (JSON.stringify(tokens) !== JSON.stringify(expected)) throw new Error(`request ${i + 1}: ${tokens}`);
        seen[end]++;
      });
      seen.saves += harness.scheduler.counters.hostPrefixSaves;
      seen.hostHits += harness.scheduler.counters.hostPrefixHits;
      seen.checkpoints += w.canTrim ? 0 : harness.scheduler.counters.hostPrefixSaves;
      seen.checkpointHits += w.canTrim ? 0 : harness.scheduler.counters.hostPrefixHits;
      seen.evictions += harness.scheduler.counters.evictions;
    }),
    { numRuns: 400 },
  );
  for (const [what, count] of Object.entries(seen)) t.ok(count > 5, `${what}: ${count}`);
});
