import { CELL_PADDING_TOKENS } from './constants.js';
import { CostCurve } from './cost-curve.js';
import { type Draft, ladderChunk, mostPromptTokens } from './draft.js';
import { paddedCells } from './kv-shape.js';
import type { PlanProblem } from './plan-problem.js';
import type { CapReason } from './plan-types.js';
import { runningCap } from './running-cap.js';

/**
 * Private caches: every running request owns its whole span. First the running cap (as many caches as leave room for the smallest
 * useful prompt step), then the pool, then the chunk from what is left. The same for both allocation rules.
 */
export function draftPrivate(problem: PlanProblem, wantedContextTokens: number): Draft {
  const { flags, rules, budgetBytes } = problem;
  const contextTokens =
    flags.contextTokens === 'auto' ? affordableContext(problem, wantedContextTokens) : flags.contextTokens;
  const least = problem.cost('private', 1, contextTokens, rules.comfortableChunkTokens);
  const cacheBytes = least.kvBytes;
  const bytesPerToken = cacheBytes / spanOf(problem, contextTokens);
  const memoryRunningCap = capByMemory(problem, contextTokens, cacheBytes, problem.totalBytes(least) - cacheBytes);
  const cap = flags.runningCap === 'auto' ? Math.min(memoryRunningCap, rules.runningBound) : flags.runningCap;
  const residentKvBytes = cap * cacheBytes;
  const activationHeadroomBytes = budgetBytes - residentKvBytes;
  const pool = privatePool(problem, contextTokens, cap, bytesPerToken);
  const rawChunkTokens = chunkByMemory(problem, contextTokens, cap, activationHeadroomBytes);
  const chunk = chooseChunk(problem, contextTokens, cap, rawChunkTokens);
  return {
    layout: 'private',
    contextTokens,
    runningCap: cap,
    poolTokens: pool.tokens,
    cells: contextTokens,
    chunkTokens: chunk.tokens,
    poolShort: pool.short,
    chunkShort: chunk.short,
    conflict: conflictOf(problem, contextTokens, cap),
    reasons: reasonsOf(problem, contextTokens, cap, memoryRunningCap),
    bytesPerToken,
    cacheBytes,
    memoryRunningCap: cap,
    memoryChunkTokens: chunk.short ? null : chunk.tokens,
    rawChunkTokens,
    residentKvBytes,
    activationHeadroomBytes,
  };
}

/** With an explicit running cap, the automatic context is what that many streams can each have. */
function affordableContext(problem: PlanProblem, wantedTokens: number): number {
  const { flags, rules } = problem;
  if (flags.runningCap === 'auto' || rules.allocation === 'growing') return wantedTokens;
  const cap = flags.runningCap;
  const chunk = flags.chunkTokens === 'auto' ? rules.comfortableChunkTokens : flags.chunkTokens;
  const curve = new CostCurve(
    (cells) => {
      const cost = problem.cost('private', cap, cells, chunk);
      return { totalBytes: problem.totalBytes(cost), kvBytes: cost.kvBytes };
    },
    paddedCells(wantedTokens, CELL_PADDING_TOKENS),
  );
  const cells = curve.largest(problem.budgetBytes, problem.staticBytes);
  const byTotal = flags.maxTotalTokens === 'auto' ? cells : Math.min(cells, padDown(flags.maxTotalTokens / cap));
  return Math.min(wantedTokens, Math.max(byTotal, CELL_PADDING_TOKENS));
}

function capByMemory(problem: PlanProblem, contextTokens: number, cacheBytes: number, stepBytes: number): number {
  const { flags, rules } = problem;
  let cap = runningCap({
    headroomBytes: problem.budgetBytes,
    cacheBytes,
    minimumStepBytes: stepBytes,
    explicit: flags.runningCap === 'auto' ? null : flags.runningCap,
    spareCaches: rules.spareCaches,
    safetyFraction: rules.prefillSafetyFraction,
  });
  if (flags.runningCap !== 'auto' || rules.allocation === 'growing') return cap;
  // Standing streams are all there from the start, so the fraction and an explicit total bind them as a whole.
  cap = Math.min(cap, Math.floor(problem.staticBytes / Math.max(cacheBytes, 1)));
  if (flags.maxTotalTokens !== 'auto')
    cap = Math.min(cap, Math.floor(flags.maxTotalTokens / spanOf(problem, contextTokens)));
  return Math.max(cap, 1);
}

function privatePool(problem: PlanProblem, contextTokens: number, cap: number, bytesPerToken: number) {
  const { flags, rules } = problem;
  const poolBytes = Math.min(problem.budgetBytes, problem.staticBytes);
  const affordable = Math.max(Math.floor(poolBytes / bytesPerToken), 0);
  if (rules.allocation === 'standing') {
    // --max-total-tokens is then a bound on all streams together: they come in whole spans.
    // Whether they fit is settled by their exact cost.
    return { tokens: spanOf(problem, contextTokens) * cap, short: false };
  }
  if (flags.maxTotalTokens !== 'auto') {
    const tokens = flags.maxTotalTokens;
    return { tokens, short: tokens < contextTokens || tokens > affordable };
  }
  const tokens = Math.min(affordable, Math.floor(contextTokens * cap * rules.poolSlack));
  return { tokens, short: tokens < contextTokens };
}

/** Largest chunk that what is left after the caches can take: a straight line through two costs, turned around. */
function chunkByMemory(problem: PlanProblem, contextTokens: number, cap: number, activationBytes: number): number {
  const { flags, rules } = problem;
  // An explicit chunk of a standing engine is settled by its exact cost: no need to ask for more.
  if (flags.chunkTokens !== 'auto' && rules.allocation === 'standing') return flags.chunkTokens;
  const stepBytes = (chunk: number) => {
    const cost = problem.cost('private', cap, contextTokens, chunk);
    return problem.totalBytes(cost) - cost.kvBytes;
  };
  const low = rules.chunkLadder.length === 0 ? 1 : rules.minChunkTokens;
  const high = rules.chunkLadder[0] ?? rules.comfortableChunkTokens;
  const slope = (stepBytes(high) - stepBytes(low)) / (high - low);
  if (slope <= 0) return mostPromptTokens(problem, contextTokens, cap);
  const fixedBytes = stepBytes(low) - slope * low;
  const bytes = Math.max(activationBytes, 0) * rules.prefillSafetyFraction - fixedBytes;
  return Math.max(Math.floor(bytes / slope), 0);
}

function chooseChunk(problem: PlanProblem, contextTokens: number, cap: number, rawTokens: number) {
  const { flags, rules } = problem;
  const most = Math.min(rawTokens, contextTokens);
  if (rules.allocation === 'standing') {
    const least = Math.min(rules.minChunkTokens, contextTokens);
    const useful = Math.min(rawTokens, mostPromptTokens(problem, contextTokens, cap));
    const automatic = Math.max(ladderChunk(rules.chunkLadder, useful), least);
    return { tokens: flags.chunkTokens === 'auto' ? automatic : flags.chunkTokens, short: false };
  }
  if (flags.chunkTokens !== 'auto') return { tokens: flags.chunkTokens, short: flags.chunkTokens > rawTokens };
  return { tokens: most, short: rawTokens < rules.minChunkTokens };
}

function spanOf(problem: PlanProblem, contextTokens: number): number {
  if (problem.rules.allocation === 'standing') return paddedCells(contextTokens, CELL_PADDING_TOKENS);
  return problem.costModel.spanTokens?.(contextTokens) ?? contextTokens;
}

function conflictOf(problem: PlanProblem, contextTokens: number, cap: number): string | null {
  const { flags, rules } = problem;
  if (flags.maxTotalTokens === 'auto' || rules.allocation === 'growing') return null;
  const span = spanOf(problem, contextTokens);
  if (span * cap <= flags.maxTotalTokens) return null;
  return `${cap} private streams of ${span} tokens need --max-total-tokens ${span * cap}, not ${flags.maxTotalTokens}`;
}

function reasonsOf(problem: PlanProblem, contextTokens: number, cap: number, memoryCap: number): CapReason[] {
  const { flags } = problem;
  const span = spanOf(problem, contextTokens);
  const contextIsFlag = flags.contextTokens !== 'auto';
  const contextWhy = contextIsFlag
    ? 'as asked for'
    : 'what a shared pool would give it, or what the streams can each have';
  return [
    { cap: 'layout', value: 'private', binds: 'flag', sentence: 'private streams, as asked for' },
    {
      cap: 'context',
      value: contextTokens,
      binds: contextIsFlag ? 'flag' : problem.headroom.binds,
      sentence: `${contextTokens} tokens of context for a request: ${contextWhy}`,
    },
    runningReason(problem, contextTokens, cap, memoryCap),
    {
      cap: 'pool',
      value: span * cap,
      binds: flags.runningCap === 'auto' ? problem.headroom.binds : 'flag',
      sentence: `${span * cap} tokens of KV: ${cap} streams of ${span}`,
    },
  ];
}

function runningReason(problem: PlanProblem, contextTokens: number, cap: number, memoryCap: number): CapReason {
  const { flags, rules } = problem;
  const reason = (binds: CapReason['binds'], why: string): CapReason => ({
    cap: 'running',
    value: cap,
    binds,
    sentence: `${cap} running requests: ${why}`,
  });
  if (flags.runningCap !== 'auto') return reason('flag', 'as asked for');
  if (memoryCap > rules.runningBound)
    return reason('chosen', `${rules.runningBoundReason}; memory would hold ${memoryCap}`);
  return reason(problem.headroom.binds, `as many caches of ${contextTokens} tokens as leave room for a prompt step`);
}

function padDown(tokens: number): number {
  return Math.floor(tokens / CELL_PADDING_TOKENS) * CELL_PADDING_TOKENS;
}
