import type { CostModel } from './cost-model.js';
import type { Knob, Plan, PlanFlags, PlanInput } from './plan-types.js';
import { planContext } from './planner.js';

/** What would change a plan: each change was planned, and only those that change something are named. At most one a flag. */
export function whatWouldChange(input: PlanInput, costModel: CostModel, plan: Plan): Knob[] {
  const { flags } = input;
  const knobs: Knob[] = [];
  const planWith = (change: Partial<PlanFlags>): Plan | null => {
    const other = planContext({ ...input, flags: { ...flags, ...change } }, costModel);
    return other.refused ? null : other;
  };
  const longest = flags.contextTokens === 'auto' ? longestContext(plan, planWith) : null;
  if (longest !== null) {
    knobs.push({ flag: '--context-length', value: String(longest), sentence: 'the longest context that fits' });
  }
  if (flags.keyType === 'f16' && flags.valueType === 'f16' && flags.flashAttention !== 'off') {
    const other = planWith({ keyType: 'q8_0', valueType: 'q8_0' });
    const gain = other === null ? null : difference(plan, other);
    if (gain !== null) knobs.push({ flag: '--kv-cache-dtype', value: 'q8_0', sentence: gain });
  }
  if (flags.layout === 'auto' && plan.layout === 'shared') {
    const other = planWith({ layout: 'private' });
    // Faster decode for fewer requests is no gain worth naming.
    const gain = other === null || other.runningCap < plan.runningCap ? null : difference(plan, other);
    if (gain !== null) knobs.push({ flag: '--kv-layout', value: 'private', sentence: `${gain}; faster decode` });
  }
  return knobs;
}

type PlanWith = (change: Partial<PlanFlags>) => Plan | null;

/** Steps of a bisection over contexts. Chosen: 2^10 parts are finer than the engine's padding for contexts up to 256k. */
const BISECTION_STEPS = 10;

function longestContext(plan: Plan, planWith: PlanWith): number | null {
  const bytesPerToken = plan.arithmetic.bytesPerToken;
  if (bytesPerToken <= 0 || plan.reasons.some((reason) => reason.cap === 'context' && reason.binds === 'model'))
    return null;
  let fits = plan.contextTokens;
  let fails = Math.ceil(plan.arithmetic.budgetBytes / bytesPerToken) + 256;
  for (let i = 0; i < BISECTION_STEPS && fails - fits > 256; i++) {
    const middle = Math.floor((fits + fails) / 2 / 256) * 256;
    if (middle <= fits) break;
    if (planWith({ contextTokens: middle, runningCap: plan.runningCap }) === null) fails = middle;
    else fits = middle;
  }
  return fits > plan.contextTokens ? fits : null;
}

function difference(plan: Plan, other: Plan): string | null {
  const parts: string[] = [];
  const compare = (what: string, before: number | string, after: number | string) => {
    if (before !== after) parts.push(`${what} ${before} → ${after}`);
  };
  compare('layout', plan.layout, other.layout);
  compare('context', plan.contextTokens, other.contextTokens);
  compare('running', plan.runningCap, other.runningCap);
  compare('pool', plan.poolTokens, other.poolTokens);
  compare('chunk', plan.chunkTokens, other.chunkTokens);
  const before = Math.round(plan.cost.kvBytes / 2 ** 20);
  const after = Math.round(other.cost.kvBytes / 2 ** 20);
  compare('KV MiB', before, after);
  return parts.length === 0 ? null : parts.join(', ');
}
