import type { ContextCost } from './cost-model.js';
import { type Draft, mostPromptTokens } from './draft.js';
import type { PlanProblem } from './plan-problem.js';
import type { CapReason, LedgerLine, Plan, PlanArithmetic } from './plan-types.js';

/** A draft that fits, as a plan. */
export function finishPlan(problem: PlanProblem, draft: Draft): Plan {
  const spec = problem.spec(draft.layout, draft.runningCap, draft.cells, draft.chunkTokens);
  const cost = problem.costModel.cost(spec);
  return {
    refused: false,
    layout: draft.layout,
    asStreams: draft.asStreams ?? false,
    runningCap: draft.runningCap,
    contextTokens: draft.contextTokens,
    poolTokens: draft.poolTokens,
    cells: spec.cells,
    chunkTokens: draft.chunkTokens,
    spec,
    cost,
    weightsBytes: problem.model.weightsBytes,
    ledger: ledgerLines(problem, cost),
    reasons: [...draft.reasons, chunkReason(problem, draft)],
    arithmetic: arithmeticOf(problem, draft),
    costSource: problem.costModel.source,
  };
}

export function arithmeticOf(problem: PlanProblem, draft: Draft): PlanArithmetic {
  return {
    headroom: problem.headroom,
    limit: problem.limit,
    marginBytes: problem.marginBytes,
    aboveLineBytes: problem.aboveLineBytes,
    budgetBytes: problem.budgetBytes,
    staticBytes: problem.staticBytes,
    bytesPerToken: draft.bytesPerToken,
    cacheBytes: draft.cacheBytes,
    runningCap: draft.memoryRunningCap === null ? null : draft.runningCap,
    poolTokens: draft.poolTokens,
    residentKvBytes: draft.residentKvBytes,
    activationHeadroomBytes: draft.activationHeadroomBytes,
    rawChunkTokens: draft.rawChunkTokens,
    chunkTokens: draft.memoryChunkTokens === null ? null : draft.chunkTokens,
  };
}

/** Who takes what of the limit. The lines add up to the limit. */
export function ledgerLines(problem: PlanProblem, cost: ContextCost): LedgerLine[] {
  const { limit, headroom, machine, model } = problem;
  const uncounted = machine.uncountedWeightsBytes;
  const total = problem.totalBytes(cost);
  const inUse = uncounted === 0 && model.weightsBytes > 0 ? 'in use, weights included' : 'in use or taken by others';
  const lines: LedgerLine[] = [
    { owner: 'limit', bytes: limit.limitBytes },
    // What the binding term leaves out: use of the limit itself, or other programs' use of the system.
    { owner: inUse, bytes: limit.limitBytes - headroom.bytes },
    { owner: 'weights', bytes: uncounted },
    { owner: 'kv', bytes: cost.kvBytes },
    { owner: 'compute', bytes: cost.computeBytes },
    { owner: 'host buffers', bytes: machine.memory === 'discrete' ? 0 : cost.hostBytes },
    { owner: 'margin', bytes: problem.marginBytes - problem.aboveLineBytes },
    { owner: 'above the lowered line', bytes: problem.aboveLineBytes },
    { owner: 'free', bytes: problem.budgetBytes - total },
  ];
  return lines.filter((line) => line.owner === 'limit' || line.bytes !== 0);
}

function chunkReason(problem: PlanProblem, draft: Draft): CapReason {
  const { flags, rules } = problem;
  const value = draft.chunkTokens;
  if (flags.chunkTokens !== 'auto') {
    return { cap: 'chunk', value, binds: 'flag', sentence: `${value} prompt tokens a step, as asked for` };
  }
  const useful = Math.min(mostPromptTokens(problem, draft.contextTokens, draft.runningCap), draft.poolTokens);
  const best = rules.chunkLadder.find((chunk) => chunk <= useful);
  const chosen = value === best;
  return {
    cap: 'chunk',
    value,
    binds: chosen ? 'chosen' : problem.headroom.binds,
    sentence: chosen
      ? `${value} prompt tokens a step: more gives no more speed on this kind of device`
      : `${value} prompt tokens a step: the largest that fits beside the pool`,
  };
}
