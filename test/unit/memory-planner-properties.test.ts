import fc from 'fast-check';
import t from 'tap';
import { planContext } from '../../src/shared/memory/planner.js';
import { anyFlags, anyMemory, anyShape, exactCosts, MIB, machineInput } from './memory-machines.js';

const anyLimit = fc.integer({ min: 64, max: 600 * 1024 }).map((mib) => mib * MIB);
/** The engine's answers cost milliseconds each: a start may ask this often. */
const MEASURES_MAX = 12;

t.test('a plan stays under the line, and its ledger adds up to the limit', async (t) => {
  fc.assert(
    fc.property(anyMemory, anyLimit, fc.double({ min: 0, max: 1, noNaN: true }), anyShape, anyFlags, (...drawn) => {
      const [memory, limit, freeShare, model, flags] = drawn;
      const input = machineInput(memory, limit, Math.floor(limit * freeShare), model, flags);
      const plan = planContext(input, exactCosts(model, memory));
      if (plan.refused) return true;
      const { cost, arithmetic, ledger } = plan;
      const bytes = cost.kvBytes + cost.computeBytes + (memory === 'discrete' ? 0 : cost.hostBytes);
      const [first, ...rest] = ledger;
      const sum = rest.reduce((total, line) => total + line.bytes, 0);
      return (
        bytes <= arithmetic.budgetBytes &&
        bytes + arithmetic.marginBytes + model.weightsBytes <= arithmetic.headroom.bytes &&
        cost.kvBytes <= arithmetic.staticBytes &&
        Math.abs(sum - first.bytes) < 1
      );
    }),
    { numRuns: 400 },
  );
  t.pass();
});

t.test('explicit values are honoured or refused, and caps agree with each other', async () => {
  fc.assert(
    fc.property(anyMemory, anyLimit, anyShape, anyFlags, (memory, limit, model, flags) => {
      const plan = planContext(machineInput(memory, limit, limit, model, flags), exactCosts(model, memory));
      if (plan.refused) return true;
      const honours = (asked: number | string | undefined, got: number | string) => asked === 'auto' || asked === got;
      const held = plan.layout === 'shared' ? plan.cells : plan.cells * plan.runningCap;
      return (
        honours(flags.contextTokens, plan.contextTokens) &&
        honours(flags.runningCap, plan.runningCap) &&
        honours(flags.chunkTokens, plan.chunkTokens) &&
        (flags.layout === 'auto' || flags.layout === plan.layout) &&
        (plan.layout === 'private' || honours(flags.maxTotalTokens, plan.poolTokens)) &&
        (flags.maxTotalTokens === 'auto' || plan.poolTokens <= (flags.maxTotalTokens as number)) &&
        plan.contextTokens <= plan.cells &&
        plan.poolTokens <= held &&
        plan.spec.batchTokens >= Math.min(plan.chunkTokens + plan.runningCap, held) &&
        plan.spec.ubatchTokens <= plan.spec.batchTokens &&
        plan.spec.sequences === plan.runningCap
      );
    }),
    { numRuns: 400 },
  );
});

t.test('more memory never gives a smaller plan', async () => {
  const anyPair = fc.tuple(fc.integer({ min: 128, max: 80 * 1024 }), fc.integer({ min: 1, max: 20 * 1024 }));
  fc.assert(
    fc.property(anyMemory, anyPair, anyShape, (memory, [mib, moreMib], model) => {
      const at = (total: number) =>
        planContext(machineInput(memory, total * MIB, total * MIB, model), exactCosts(model, memory));
      const small = at(mib);
      const large = at(mib + moreMib);
      if (small.refused) return true;
      return (
        !large.refused &&
        large.contextTokens >= small.contextTokens &&
        large.runningCap >= small.runningCap &&
        large.poolTokens >= small.poolTokens
      );
    }),
    { numRuns: 600 },
  );
});

t.test('with a fixed context and running cap, more memory never gives a smaller chunk', async () => {
  fc.assert(
    fc.property(
      anyMemory,
      fc.integer({ min: 256, max: 40_000 }),
      fc.integer({ min: 1, max: 9000 }),
      anyShape,
      (...drawn) => {
        const [memory, mib, moreMib, model] = drawn;
        const flags = { contextTokens: 2048, runningCap: 4, layout: 'shared' as const };
        const at = (total: number) =>
          planContext(machineInput(memory, total * MIB, total * MIB, model, flags), exactCosts(model, memory));
        const small = at(mib);
        const large = at(mib + moreMib);
        return small.refused || (!large.refused && large.chunkTokens >= small.chunkTokens);
      },
    ),
    { numRuns: 300 },
  );
});

t.test('a plan asks the engine a dozen times at most', async (t) => {
  let most = 0;
  fc.assert(
    fc.property(anyMemory, anyLimit, anyShape, anyFlags, (memory, limit, model, flags) => {
      const costs = exactCosts(model, memory);
      const plan = planContext(machineInput(memory, limit, limit, model, flags), costs);
      if (!plan.refused) most = Math.max(most, costs.measureCount);
      return plan.refused || costs.measureCount <= MEASURES_MAX;
    }),
    { numRuns: 400 },
  );
  t.ok(most > 0, `at most ${most}`);
});

t.test('what a refusal says is true: its knobs help, its context fits, its limit suffices', async (t) => {
  let refusals = 0;
  fc.assert(
    fc.property(anyMemory, fc.integer({ min: 64, max: 4096 }), anyShape, anyFlags, (memory, mib, model, flags) => {
      const costs = exactCosts(model, memory);
      const input = machineInput(memory, mib * MIB, mib * MIB, model, flags);
      const refusal = planContext(input, costs);
      if (!refusal.refused) return true;
      refusals++;
      const names: Record<string, string[]> = {
        '--context-length': ['contextTokens'],
        '--max-running-requests': ['runningCap'],
        '--chunked-prefill-size': ['chunkTokens'],
        '--max-total-tokens': ['maxTotalTokens'],
        '--mem-fraction-static': ['memFraction'],
        '--kv-layout': ['layout'],
        '--kv-cache-dtype': ['keyType', 'valueType'],
      };
      for (const knob of refusal.knobs) {
        const number = Number(knob.value);
        const value = Number.isNaN(number) ? knob.value : number;
        const changed = { ...input.flags, ...Object.fromEntries(names[knob.flag].map((name) => [name, value])) };
        if (planContext({ ...input, flags: changed }, costs).refused) return false;
      }
      if (refusal.sufficientLimitBytes === null) return true;
      const enough = machineInput(memory, refusal.sufficientLimitBytes, refusal.sufficientLimitBytes, model, flags);
      return !planContext(enough, costs).refused;
    }),
    { numRuns: 300 },
  );
  t.ok(refusals > 20, `${refusals} refusals were tried`);
});
