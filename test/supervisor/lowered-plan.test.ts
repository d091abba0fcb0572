import t from 'tap';
import { planUnderLine } from '../../src/shared/memory/lowered-line.js';
import type { Plan } from '../../src/shared/memory/plan-types.js';
import { planContext } from '../../src/shared/memory/planner.js';
import { exactCosts, GIB, MIB, machineInput, SMOL } from '../unit/memory-machines.js';

function planned(plan: ReturnType<typeof planContext>): Plan {
  if (plan.refused) throw new Error(plan.sentence);
  return plan;
}

t.test('a lowered line shrinks the budget by its share of the limit, and the ledger says so', async (t) => {
  for (const memory of ['host', 'unified', 'discrete'] as const) {
    const costs = exactCosts(SMOL, memory);
    const input = machineInput(memory, 4 * GIB, 3 * GIB, SMOL);
    const whole = planned(planUnderLine(input, costs, 1).plan);
    t.strictSame(whole, planContext(input, costs), 'at the limit: the plan as ever');
    const { plan, lineFraction } = planUnderLine(input, costs, 0.75);
    const lowered = planned(plan);
    t.equal(lineFraction, 0.75);
    t.equal(lowered.arithmetic.aboveLineBytes, GIB);
    t.equal(lowered.arithmetic.budgetBytes, whole.arithmetic.budgetBytes - GIB);
    t.equal(lowered.arithmetic.marginBytes, whole.arithmetic.marginBytes + GIB, 'what keeps the margin keeps the line');
    t.match(lowered.ledger, [{ owner: 'limit', bytes: 4 * GIB }]);
    t.equal(lowered.ledger.find((line) => line.owner === 'above the lowered line')?.bytes, GIB);
    const [limit, ...rest] = lowered.ledger;
    t.equal(
      rest.reduce((sum, line) => sum + line.bytes, 0),
      limit.bytes,
      'the ledger adds up',
    );
  }
});

t.test('a tight machine gets a smaller context under a lower line', async (t) => {
  const costs = exactCosts(SMOL, 'host');
  const input = machineInput('host', 600 * MIB, 500 * MIB, SMOL);
  const bytes = [1, 0.9, 0.8].map((fraction) => planned(planUnderLine(input, costs, fraction).plan).cost.kvBytes);
  t.ok(bytes[0] > bytes[1] && bytes[1] > bytes[2], bytes.join(' > '));
});

t.test('where nothing fits under it, the lowest line that has a plan is kept', async (t) => {
  const costs = exactCosts(SMOL, 'host');
  const input = machineInput('host', 1000 * MIB, 400 * MIB, SMOL);
  t.ok(planContext({ ...input, lineFraction: 0.5 }, costs).refused);
  const { plan, lineFraction } = planUnderLine(input, costs, 0.5);
  planned(plan);
  t.ok(lineFraction > 0.5 && lineFraction < 1, `${lineFraction}`);
  t.ok(planContext({ ...input, lineFraction: lineFraction - 0.01 }, costs).refused, 'a hundredth lower there is none');
});

t.test('what is refused without a lower line is refused in the same words', async (t) => {
  const costs = exactCosts(SMOL, 'host');
  const input = machineInput('host', 200 * MIB, 100 * MIB, SMOL);
  t.strictSame(planUnderLine(input, costs, 0.6), { plan: planContext(input, costs), lineFraction: 1 });
});
