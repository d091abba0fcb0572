import type { KvType } from '../engine.js';
import { CELL_PADDING_TOKENS, MARGIN_FRACTION, MAX_SUGGESTED_FRACTION, MIB, MIN_CONTEXT_TOKENS } from './constants.js';
import { CostCurve } from './cost-curve.js';
import type { Draft } from './draft.js';
import { paddedCells } from './kv-shape.js';
import { arithmeticOf, ledgerLines } from './plan-finish.js';
import type { PlanProblem } from './plan-problem.js';
import type { Knob, PlanFlags, Refusal } from './plan-types.js';

/** Tries for a limit that suffices, and what each adds to the shortage. Chosen: the first is nearly always right, and 8 double it. */
const LIMIT_ATTEMPTS = 9;
const LIMIT_GROWTH = 1.1;

/** Plans with other flags; null: that is refused too. */
export type Replan = (flags: PlanFlags) => Draft | null;

/** Why nothing fits, with the arithmetic, what binds, what would fit, and the knobs that help: each was tried. */
export function refuse(
  problem: PlanProblem,
  draft: Draft,
  replan: Replan,
  suffices: (limitBytes: number) => boolean,
): Refusal {
  const least = leastCost(problem, draft);
  const overTotal = problem.totalBytes(least) - problem.budgetBytes;
  const overStatic = least.kvBytes - problem.staticBytes;
  const shortBytes = Math.max(overTotal, overStatic, 0);
  const largestContextTokens = largestContext(problem, draft, replan);
  const fractionHint = fractionThatHelps(problem, draft, replan);
  return {
    refused: true,
    poolShort: draft.poolShort,
    chunkShort: draft.chunkShort,
    binds: bindsOf(problem, draft, overTotal, overStatic),
    sentence: sentenceOf(problem, draft),
    ledger: ledgerLines(problem, least),
    shortBytes,
    sufficientLimitBytes: draft.conflict === null ? sufficientLimit(problem, overTotal, overStatic, suffices) : null,
    largestContextTokens,
    fractionHint,
    knobs: knobsThatHelp(problem, largestContextTokens, fractionHint, replan),
    arithmetic: arithmeticOf(problem, draft),
  };
}

/** The smallest context that the flags allow. */
function leastCost(problem: PlanProblem, draft: Draft) {
  const { flags, rules } = problem;
  const cap = flags.runningCap === 'auto' ? 1 : flags.runningCap;
  const chunk = flags.chunkTokens === 'auto' ? rules.minChunkTokens : flags.chunkTokens;
  const layout = flags.layout === 'private' || rules.allocation === 'growing' ? draft.layout : 'shared';
  const context = flags.contextTokens === 'auto' ? MIN_CONTEXT_TOKENS : flags.contextTokens;
  const total = flags.maxTotalTokens === 'auto' ? context : Math.max(context, flags.maxTotalTokens);
  return problem.cost(layout, cap, layout === 'shared' ? total : context, chunk);
}

function bindsOf(problem: PlanProblem, draft: Draft, overTotal: number, overStatic: number): Refusal['binds'] {
  if (draft.conflict !== null) return 'flags';
  return draft.poolShort && overStatic > overTotal ? 'fraction' : problem.headroom.binds;
}

function sentenceOf(problem: PlanProblem, draft: Draft): string {
  if (draft.conflict !== null) return draft.conflict;
  if (draft.poolShort) {
    return `the KV cache of one request of ${draft.contextTokens} tokens (and what was asked for beside it) does not fit`;
  }
  return `no prompt step of at least ${problem.rules.minChunkTokens} tokens fits beside the KV cache`;
}

/**
 * Rounded up to whole MiB. A larger limit also has a larger margin, and the fraction takes only its share of it. What comes out is planned
 * with before it is named, and raised until that works; null: it did not.
 */
function sufficientLimit(
  problem: PlanProblem,
  overTotal: number,
  overStatic: number,
  suffices: (limitBytes: number) => boolean,
): number | null {
  const standing = problem.rules.allocation === 'standing';
  const forTotal = Math.max(overTotal, 0) / (standing ? 1 - MARGIN_FRACTION : 1);
  const forStatic = Math.max(overStatic, 0) / problem.memFraction;
  const { limitBytes } = problem.limit;
  for (let attempt = 0, more = Math.max(forTotal, forStatic); attempt < LIMIT_ATTEMPTS; attempt++) {
    const candidate = Math.ceil((limitBytes + more) / MIB) * MIB;
    if (suffices(candidate)) return candidate;
    more = Math.max(more * LIMIT_GROWTH, MIB);
  }
  return null;
}

function largestContext(problem: PlanProblem, draft: Draft, replan: Replan): number {
  const { flags, rules, budgetBytes, staticBytes } = problem;
  if (rules.allocation === 'growing') return largestGrowingContext(problem, draft, replan);
  const cap = flags.runningCap === 'auto' ? 1 : flags.runningCap;
  const chunk = flags.chunkTokens === 'auto' ? rules.minChunkTokens : flags.chunkTokens;
  const layout = flags.layout === 'private' ? 'private' : 'shared';
  const most = paddedCells(Math.max(draft.contextTokens, CELL_PADDING_TOKENS), CELL_PADDING_TOKENS);
  const curve = new CostCurve((cells) => {
    const cost = problem.cost(layout, cap, cells, chunk);
    return { totalBytes: problem.totalBytes(cost), kvBytes: cost.kvBytes };
  }, most);
  let cells = curve.largest(budgetBytes, staticBytes);
  if (flags.maxTotalTokens !== 'auto') {
    cells = Math.min(cells, Math.floor(flags.maxTotalTokens / (layout === 'private' ? cap : 1)));
  }
  return cells >= CELL_PADDING_TOKENS && replan({ ...flags, contextTokens: cells }) !== null ? cells : 0;
}

/** Bisects: the span doubles, so no straight line says where a context stops fitting. */
function largestGrowingContext(problem: PlanProblem, draft: Draft, replan: Replan): number {
  let fits = 0;
  let fails = draft.contextTokens;
  while (fails - fits > 1) {
    const middle = (fits + fails) >> 1;
    if (replan({ ...problem.flags, contextTokens: middle }) === null) fails = middle;
    else fits = middle;
  }
  return fits;
}

/** (floor(100 · (use + context · bytes a token) / limit) + 1) / 100, where a plan with it is not refused. */
function fractionThatHelps(problem: PlanProblem, draft: Draft, replan: Replan): number | null {
  if (!draft.poolShort) return null;
  const usedBytes = problem.limit.usedBytes + problem.machine.uncountedWeightsBytes;
  const needBytes = usedBytes + draft.contextTokens * draft.bytesPerToken;
  const fraction = (Math.floor((100 * needBytes) / problem.limit.limitBytes) + 1) / 100;
  if (fraction > MAX_SUGGESTED_FRACTION || fraction <= problem.memFraction) return null;
  return replan({ ...problem.flags, memFraction: fraction }) === null ? null : fraction;
}

function knobsThatHelp(problem: PlanProblem, largestTokens: number, fraction: number | null, replan: Replan): Knob[] {
  const { flags } = problem;
  const knobs: Knob[] = [];
  const add = (flag: string, value: string | number, sentence: string) =>
    knobs.push({ flag, value: String(value), sentence });
  const helps = (change: Partial<PlanFlags>) => replan({ ...flags, ...change }) !== null;
  if (largestTokens >= MIN_CONTEXT_TOKENS) add('--context-length', largestTokens, 'the largest context that fits');
  if (fraction !== null) add('--mem-fraction-static', fraction, 'lets weights and KV take more of the limit');
  if (flags.runningCap !== 'auto' && helps({ runningCap: 'auto' })) {
    add('--max-running-requests', 'auto', 'as many requests as memory holds');
  }
  if (flags.chunkTokens !== 'auto' && helps({ chunkTokens: 'auto' })) {
    add('--chunked-prefill-size', 'auto', 'a prompt step that fits');
  }
  if (flags.maxTotalTokens !== 'auto' && helps({ maxTotalTokens: 'auto' })) {
    add('--max-total-tokens', 'auto', 'a pool that fits');
  }
  if (flags.layout === 'private' && helps({ layout: 'shared' })) {
    add('--kv-layout', 'shared', 'charges no request for context that it does not use');
  }
  for (const kvType of smallerTypes(flags)) {
    if (!helps({ keyType: kvType, valueType: kvType })) continue;
    add('--kv-cache-dtype', kvType, 'makes each cached token smaller');
    break;
  }
  return knobs;
}

/** Quantized values need fused attention. */
function smallerTypes(flags: PlanFlags): KvType[] {
  if (flags.flashAttention === 'off') return [];
  if (flags.keyType === 'f16' || flags.keyType === 'bf16' || flags.keyType === 'f32') return ['q8_0', 'q4_0'];
  return flags.keyType === 'q8_0' ? ['q4_0'] : [];
}
