import fc from 'fast-check';
import t from 'tap';
import { type GateState, gate, type PrefillNeed } from '../../src/shared/memory/gate.js';

const PLAN = { bytes: 1000, cells: 1000 };
const idle: GateState = {
  headroomBytes: 1000,
  reservedBytes: 0,
  freeCells: 1000,
  evictableCells: 0,
  evictableBytes: 0,
  runningRequests: 0,
};
const need = (changes: Partial<PrefillNeed>): PrefillNeed => ({
  newKvBytes: 0,
  transientBytes: 0,
  cells: 0,
  ...changes,
});

t.test('what fits is admitted, reservations counted', async (t) => {
  t.match(gate(need({ newKvBytes: 600, transientBytes: 400 }), idle, PLAN), { decision: 'admit', needBytes: 1000 });
  const busy = { ...idle, runningRequests: 1, reservedBytes: 500 };
  t.match(gate(need({ newKvBytes: 501 }), busy, PLAN), { decision: 'wait', shortBytes: 1 });
  t.match(gate(need({ newKvBytes: 500 }), busy, PLAN), { decision: 'admit' });
});

t.test('never is only for what the plan could not hold alone', async (t) => {
  t.match(gate(need({ newKvBytes: 1001 }), idle, PLAN), { decision: 'never', planBytes: 1000, shortBytes: 1 });
  t.match(gate(need({ cells: 1001 }), idle, PLAN), { decision: 'never', shortCells: 1 });
  const tight = { ...idle, headroomBytes: 0, runningRequests: 3 };
  t.match(gate(need({ newKvBytes: 1000 }), tight, PLAN), { decision: 'wait' }, 'pressure is not never');
});

t.test('idle prefixes go first, and only as much as is needed', async (t) => {
  const cached = { ...idle, freeCells: 100, evictableCells: 500, runningRequests: 1 };
  t.match(gate(need({ cells: 300 }), cached, PLAN), { decision: 'evict', evictCells: 200, evictBytes: 0 });
  t.match(gate(need({ cells: 700 }), cached, PLAN), { decision: 'wait', shortCells: 600 });
});

t.test('a request that needs nothing new is not stopped by a reading', async (t) => {
  const over = { ...idle, headroomBytes: 0, reservedBytes: 5000, runningRequests: 1 };
  t.match(gate(need({ cells: 10 }), over, PLAN), { decision: 'admit' });
});

t.test('four short requests, one slot: one runs, three wait, all four answer', async (t) => {
  let running = 0;
  let answered = 0;
  let waiting = 4;
  let mostRunning = 0;
  for (let step = 0; step < 100 && answered < 4; step++) {
    const state = { ...idle, headroomBytes: 1000 - running * 600, runningRequests: running };
    if (waiting > 0 && gate(need({ newKvBytes: 600 }), state, PLAN).decision === 'admit') {
      waiting--;
      running++;
      mostRunning = Math.max(mostRunning, running);
      continue;
    }
    running--;
    answered++;
  }
  t.equal(answered, 4);
  t.equal(mostRunning, 1);
});

t.test('no wedge: whatever the readings say, something runs, frees, or can never fit', async () => {
  const request = fc.record({
    newKvBytes: fc.nat(1500),
    transientBytes: fc.nat(300),
    cells: fc.nat(1200),
    keepsPrefix: fc.boolean(),
    steps: fc.integer({ min: 1, max: 5 }),
  });
  const anyRequests = fc.array(request, { minLength: 1, maxLength: 12 });
  // Readings may be stale, negative or absurd: other programs take and give back memory as they like.
  const anyReadings = fc.array(fc.integer({ min: -5000, max: 3000 }), { minLength: 1, maxLength: 30 });
  fc.assert(
    fc.property(anyRequests, anyReadings, (requests, headrooms) => serves(requests, headrooms)),
    { numRuns: 1000 },
  );
});

interface Simulated {
  newKvBytes: number;
  transientBytes: number;
  cells: number;
  keepsPrefix: boolean;
  steps: number;
}

/** A small server around the gate. True when every request ended: answered, or never. */
function serves(requests: readonly Simulated[], headrooms: readonly number[]): boolean {
  const waiting = [...requests];
  const running: Array<Simulated & { left: number }> = [];
  let cachedCells = 0;
  let ended = 0;
  const stepsMax = 40 + requests.length * 20;
  for (let step = 0; step < stepsMax && ended < requests.length; step++) {
    const activeCells = running.reduce((sum, one) => sum + one.cells, 0);
    const first = waiting[0];
    if (first !== undefined) {
      const decision = gate(
        first,
        {
          headroomBytes: headrooms[step % headrooms.length],
          reservedBytes: 0,
          freeCells: PLAN.cells - activeCells - cachedCells,
          evictableCells: cachedCells,
          evictableBytes: 0,
          runningRequests: running.length,
        },
        PLAN,
      );
      if (decision.decision === 'never') {
        waiting.shift();
        ended++;
        continue;
      }
      if (decision.decision === 'evict') {
        if (decision.evictCells <= 0 || decision.evictCells > cachedCells) return false;
        cachedCells -= decision.evictCells;
        continue;
      }
      if (decision.decision === 'admit') {
        waiting.shift();
        running.push({ ...first, left: first.steps });
        continue;
      }
      // Waiting is allowed only while something runs that will end.
      if (running.length === 0) return false;
    }
    for (const one of running) one.left--;
    for (const one of running.filter((candidate) => candidate.left <= 0)) {
      running.splice(running.indexOf(one), 1);
      ended++;
      if (one.keepsPrefix) cachedCells += one.cells;
    }
  }
  return ended === requests.length;
}
