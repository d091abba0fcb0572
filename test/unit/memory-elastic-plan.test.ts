import fc from 'fast-check';
import t from 'tap';
import {
  CALM_MS,
  type ElasticAction,
  type ElasticInput,
  elasticStep,
  GROW_COOL_DOWN_MS,
  initialElasticState,
  SHRINK_COOL_DOWN_MS,
} from '../../src/shared/memory/elastic-plan.js';

const limits = { lowBytes: 100, highBytes: 300, idleReleaseMs: 10_000, idleUnloadMs: 60_000 };
const calm: ElasticInput = {
  nowMs: 0,
  headroomBytes: 1000,
  pressureLevel: 0,
  runningRequests: 1,
  waitingRequests: 0,
  waitingForCells: false,
  largerPlanFits: true,
};

/** Runs the machine over inputs every 100 ms; gives the actions with their times. */
function run(
  inputAt: (nowMs: number) => Partial<ElasticInput>,
  untilMs: number,
): Array<[number, ElasticAction['action']]> {
  let state = initialElasticState(0);
  const actions: Array<[number, ElasticAction['action']]> = [];
  for (let nowMs = 0; nowMs <= untilMs; nowMs += 100) {
    const step = elasticStep(state, { ...calm, ...inputAt(nowMs), nowMs }, limits);
    state = step.state;
    if (step.action.action !== 'none') actions.push([nowMs, step.action.action]);
  }
  return actions;
}

t.test('pressure takes the cheapest measure first, then the next', async (t) => {
  const actions = run(() => ({ headroomBytes: 50 }), 1000).map(([, action]) => action);
  t.same(actions, ['drop-idle-kv', 'lower-chunk', 'shrink']);
});

t.test('critical pressure shrinks at once, again only after the cool-down', async (t) => {
  const actions = run(() => ({ pressureLevel: 2 }), 2500);
  t.same(
    actions.map(([, action]) => action),
    ['shrink', 'shrink', 'shrink'],
  );
  t.equal(actions[0][0], 0);
  t.ok(actions[1][0] - actions[0][0] >= SHRINK_COOL_DOWN_MS);
});

t.test('after pressure the plan comes back within five seconds', async (t) => {
  const leavesMs = 5000;
  const actions = run((nowMs) => (nowMs < leavesMs ? { headroomBytes: 50 } : {}), 15_000);
  const grow = actions.find(([, action]) => action === 'grow');
  t.ok(grow && grow[0] <= leavesMs + 5000, `grew at ${grow?.[0]}`);
});

t.test('headroom between low and high changes nothing', async (t) => {
  t.same(
    run(() => ({ headroomBytes: 200, waitingForCells: true }), 20_000),
    [],
  );
});

t.test('demand grows the plan when a larger one fits, not more often than the cool-down', async (t) => {
  const actions = run(() => ({ waitingForCells: true }), 12_000);
  t.ok(actions.every(([, action]) => action === 'grow'));
  t.ok(actions[0][0] >= CALM_MS);
  for (let i = 1; i < actions.length; i++) t.ok(actions[i][0] - actions[i - 1][0] >= GROW_COOL_DOWN_MS);
  t.same(
    run(() => ({ waitingForCells: true, largerPlanFits: false }), 12_000),
    [],
  );
});

t.test('idle gives back the context, then the weights; a request brings both back', async (t) => {
  const idle = { runningRequests: 0 };
  const actions = run((nowMs) => (nowMs < 100_000 ? idle : { runningRequests: 0, waitingRequests: 1 }), 101_000);
  t.same(
    actions.map(([, action]) => action),
    ['release', 'unload', 'reload'],
  );
  t.same(actions[2][0], 100_000, 'at once');
  const early = run((nowMs) => (nowMs < 20_000 ? idle : { waitingRequests: 1, runningRequests: 0 }), 21_000);
  t.same(
    early.map(([, action]) => action),
    ['release', 'restore'],
  );
});

t.test('re-plans keep their distance whatever the readings do', async () => {
  const tick = fc.record({
    headroomBytes: fc.integer({ min: 0, max: 600 }),
    pressureLevel: fc.constantFrom(0, 0, 0, 1, 2),
    waitingForCells: fc.boolean(),
    largerPlanFits: fc.boolean(),
  });
  fc.assert(
    fc.property(fc.array(tick, { minLength: 1, maxLength: 200 }), (ticks) => {
      const actions = run((nowMs) => ticks[Math.floor(nowMs / 100) % ticks.length], 20_000);
      const replans = actions.filter(([, action]) => action === 'shrink' || action === 'grow');
      return replans.every(([at], i) => i === 0 || at - replans[i - 1][0] >= SHRINK_COOL_DOWN_MS);
    }),
  );
});
