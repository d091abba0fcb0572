import { runAsStreams, suitsStreams } from './as-streams.js';
import { CELL_PADDING_TOKENS, LONG_SPAN_TOKENS, PRIVATE_MOST_CPU_BYTES, PRIVATE_SHARE } from './constants.js';
import type { CostModel } from './cost-model.js';
import { type Draft, isShort } from './draft.js';
import { draftPrivate } from './draft-private.js';
import { automaticContext, draftGreedyPool, draftShared } from './draft-shared.js';
import { paddedCells } from './kv-shape.js';
import { finishPlan } from './plan-finish.js';
import { PlanProblem } from './plan-problem.js';
import type { Plan, PlanFlags, PlanInput, Refusal } from './plan-types.js';
import { refuse } from './refusal.js';
import { settle } from './settle.js';
import { streamsIn } from './stream-ladder.js';

/**
 * Chooses KV layout, running cap, context of a request, pool and chunk so that all of it fits under the line with its margin, or
 * refuses with the arithmetic. Pure: readings and flags in, a plan out. Explicit flags are honoured or refused.
 */
export function planContext(input: PlanInput, costModel: CostModel): Plan | Refusal {
  const problem = new PlanProblem(input, costModel);
  const draft = draftPlan(problem);
  if (!isShort(draft)) return finishPlan(problem, draft);
  const replan = (flags: PlanFlags) => {
    const other = new PlanProblem(input, costModel, flags);
    const changed = draftPlan(other);
    return isShort(changed) ? null : changed;
  };
  const suffices = (limitBytes: number) => {
    const larger = withMore(input, limitBytes - problem.limit.limitBytes);
    return !isShort(draftPlan(new PlanProblem(larger, costModel)));
  };
  return refuse(problem, draft, replan, suffices);
}

/** The same machine with `bytes` more of whatever it is limited by. */
function withMore(input: PlanInput, bytes: number): PlanInput {
  const readings = { ...input.machine.readings };
  readings.deviceTotalBytes += bytes;
  readings.deviceFreeBytes += bytes;
  readings.systemTotalBytes += bytes;
  readings.systemAvailableBytes += bytes;
  if (readings.cgroupLimitBytes > 0) readings.cgroupLimitBytes += bytes;
  return { ...input, machine: { ...input.machine, readings } };
}

function draftPlan(problem: PlanProblem): Draft {
  const { flags, rules, model } = problem;
  if (rules.allocation === 'growing') {
    if (flags.layout === 'shared') return draftGreedyPool(problem);
    return draftPrivate(problem, model.trainContextTokens);
  }
  if (flags.layout === 'private') {
    const context = flags.contextTokens === 'auto' ? automaticContext(problem) : flags.contextTokens;
    return settle(problem, draftPrivate(problem, context));
  }
  const shared = draftShared(problem);
  if (flags.layout === 'auto' && !isShort(shared)) {
    const streams = asPrivate(problem, shared);
    if (streams !== null) return streams;
  }
  const settled = settle(problem, shared);
  if (!isShort(settled) && suitsStreams(problem, settled)) runAsStreams(problem, settled);
  settled.reasons.unshift({
    cap: 'layout',
    value: 'shared',
    binds: flags.layout === 'auto' ? problem.headroom.binds : 'flag',
    sentence: layoutSentence(problem, settled),
  });
  return settled;
}

function layoutSentence({ flags }: PlanProblem, { cells, runningCap, asStreams }: Draft): string {
  if (flags.layout !== 'auto') return 'shared pool, as asked for';
  if (!asStreams) return 'shared pool: full private spans are too long or take too much of what is free';
  const count = streamsIn(cells, runningCap);
  if (count === 1) return 'one private stream from the memory of the pool: requests take turns, and lose nothing by it';
  return `${count} private streams from the memory of one pool, fewer and longer ones when a request asks for it`;
}

/** The same caps in private streams, where their full spans leave most of the memory free; null: they do not. */
function asPrivate(problem: PlanProblem, shared: Draft): Draft | null {
  const { flags } = problem;
  const { contextTokens, runningCap, chunkTokens } = shared;
  const span = paddedCells(contextTokens, CELL_PADDING_TOKENS);
  const poolTokens = span * runningCap;
  if (contextTokens > LONG_SPAN_TOKENS) return null;
  if (flags.maxTotalTokens !== 'auto' && poolTokens > flags.maxTotalTokens) return null;
  const cost = problem.cost('private', runningCap, span, chunkTokens);
  if (!problem.fits(cost, PRIVATE_SHARE)) return null;
  if (problem.machine.memory === 'host' && cost.kvBytes > PRIVATE_MOST_CPU_BYTES) return null;
  const reasons = shared.reasons.filter((reason) => reason.cap !== 'pool');
  reasons.unshift({
    cap: 'layout',
    value: 'private',
    binds: 'chosen',
    sentence: `private streams: ${runningCap} full spans take less than ${PRIVATE_SHARE * 100} % of what is free`,
  });
  reasons.push({
    cap: 'pool',
    value: poolTokens,
    binds: 'chosen',
    sentence: `${poolTokens} tokens of KV: ${runningCap} streams of ${span}`,
  });
  return {
    ...shared,
    layout: 'private',
    cells: span,
    poolTokens,
    cacheBytes: cost.kvBytes / runningCap,
    residentKvBytes: cost.kvBytes,
    activationHeadroomBytes: problem.budgetBytes - cost.kvBytes,
    reasons,
  };
}
