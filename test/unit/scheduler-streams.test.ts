/** Streams of changing shape, as the scheduler sees them: what it waits for, and what it takes along. */
import t from 'tap';
import { CARRY_NOTHING } from '../../src/shared/scheduler/carry-over.js';
import { LIMITS, SchedulerHarness } from '../support/scheduler-harness.js';

const letters = (count: number, first = 65) => Array.from({ length: count }, (_, i) => first + (i % 26));
const STREAMS = {
  ...LIMITS,
  layout: 'private',
  sequences: 2,
  sequencesMax: 2,
  hasShapes: true,
  runningCap: 2,
  cells: 256,
  cellsMax: 512,
  speculates: false,
} as const;
const LONG = { params: { maxTokens: 100, ignoreEos: true } };
const ALL_IN_MEMORY = { ...CARRY_NOTHING, copyTokens: Number.POSITIVE_INFINITY };

/** Plans and runs until nothing can be planned. */
function runDry(harness: SchedulerHarness): void {
  for (let i = 0; i < 1_000; i++) {
    const isPlanned = harness.plan();
    harness.run();
    if (!isPlanned && harness.recordsInFlight === 0) return;
  }
  throw new Error('it does not run dry');
}

t.test(
  'who has filled its stream is stalled also while a longer one may be had, and does not wait for ever',
  async (t) => {
    const harness = new SchedulerHarness(STREAMS);
    harness.submit(1, letters(200), LONG);
    harness.scheduler.canGrow = true;
    runDry(harness);
    const { scheduler } = harness;
    t.ok(scheduler.wantedCells > STREAMS.cells, 'it asks for longer streams');
    t.equal(scheduler.isStalled, true, 'and the policy is told that nothing goes on without them');
    // Each time the policy looks, it says yes; each time it is asked, no.
    for (let i = 0; i < 200 && harness.outcome(1).end === ''; i++) {
      harness.nowMs += 100;
      scheduler.canGrow = i % 2 === 0;
      harness.plan();
      harness.run();
    }
    t.equal(harness.outcome(1).end, 'insufficientMemory');
    t.ok(harness.nowMs <= 11_000);
  },
);

t.test('a prompt that could never end in shorter streams is not taken along', async (t) => {
  const harness = new SchedulerHarness({ ...STREAMS, cells: 512 });
  harness.submit(1, letters(400), LONG);
  harness.plan();
  harness.run();
  harness.submit(2, letters(60, 97), LONG);
  harness.plan();
  harness.run();
  const { copied } = harness.scheduler.leaveContext(2, 256, ALL_IN_MEMORY);
  t.same(
    copied.map(({ from }) => from),
    [1],
  );
});

t.test('where there are fewer streams, the more urgent go along, then those that came first', async (t) => {
  const order = (priorities: number[]) => {
    const harness = new SchedulerHarness({ ...STREAMS, sequences: 3, sequencesMax: 3, runningCap: 3 });
    priorities.forEach((priority, id) => {
      harness.submit(id + 1, letters(50, 65 + id * 5), { ...LONG, priority });
      harness.nowMs += 10;
      harness.plan();
      harness.run();
    });
    return harness.scheduler.leaveContext(2, 256, ALL_IN_MEMORY).copied.map(({ from }) => from);
  };
  t.same(order([0, 0, 0]), [0, 1]);
  t.same(order([0, 0, -1]), [2, 0]);
});

t.test('streams are not made shorter than who is next in the queue needs', async (t) => {
  const harness = new SchedulerHarness({ ...STREAMS, sequences: 1, runningCap: 1, cells: 512 });
  harness.submit(1, letters(50), LONG);
  harness.plan();
  harness.submit(2, letters(400, 97), LONG);
  t.equal(harness.scheduler.longestCells, 401);
});
