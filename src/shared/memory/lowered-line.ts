/**
 * The line of a machine on which this model has already died of memory: lower than the limit by a share of it. What is above it counts
 * as margin, so everything that keeps the margin keeps this too, at start and while it runs.
 */
import type { CostModel } from './cost-model.js';
import type { Plan, PlanInput, Refusal } from './plan-types.js';
import { planContext } from './planner.js';

export interface LoweredPlan {
  plan: Plan | Refusal;
  /** The line that the plan was made for: the one asked for, or a higher one where nothing fits under that. */
  lineFraction: number;
}

/** Lines are told apart by hundredths of the limit: no reading is better than that. Chosen. */
const STEPS = 100;

/**
 * Plans under a line of `fraction` of the limit. A lower line makes a plan smaller and never impossible: a server that refused to start
 * because it once crashed would stay down, and nothing could prove it healthy again. So where nothing fits under it, the plan is the one
 * of the lowest line that has any. A refusal is a refusal without a lower line.
 */
export function planUnderLine(input: Omit<PlanInput, 'lineFraction'>, costs: CostModel, fraction: number): LoweredPlan {
  const planAt = (lineFraction: number): LoweredPlan => ({
    plan: planContext({ ...input, lineFraction }, costs),
    lineFraction,
  });
  const asked = planAt(fraction);
  if (!asked.plan.refused || fraction === 1) return asked;
  let lowest = planAt(1);
  if (lowest.plan.refused) return lowest;
  let refused = Math.floor(fraction * STEPS);
  let planned = STEPS;
  while (planned - refused > 1) {
    const middle = (planned + refused) >> 1;
    const tried = planAt(middle / STEPS);
    if (tried.plan.refused) refused = middle;
    else {
      planned = middle;
      lowest = tried;
    }
  }
  return lowest;
}
