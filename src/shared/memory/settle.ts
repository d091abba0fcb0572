import { CELL_PADDING_TOKENS } from './constants.js';
import type { Draft } from './draft.js';
import { ladderChunk } from './draft.js';
import type { PlanProblem } from './plan-problem.js';

/** Corrections at most. Chosen: estimates are straight lines, so one is the rule and more means a model that no line describes. */
const CORRECTIONS_MAX = 4;

/**
 * Costs the draft for good. Where the estimate was too low, what was automatic gives way, chunk first, then pool (and with it an
 * automatic context), then the running cap; a draft without anything automatic left is short.
 */
export function settle(problem: PlanProblem, draft: Draft): Draft {
  if (draft.poolShort || draft.chunkShort || draft.conflict !== null) return draft;
  const settled = { ...draft, reasons: [...draft.reasons] };
  for (let i = 0; i <= CORRECTIONS_MAX; i++) {
    const cost = problem.cost(settled.layout, settled.runningCap, settled.cells, settled.chunkTokens);
    settled.residentKvBytes = cost.kvBytes;
    settled.activationHeadroomBytes = problem.budgetBytes - cost.kvBytes;
    if (problem.fits(cost)) return settled;
    const overBytes = Math.max(
      problem.totalBytes(cost) - problem.budgetBytes,
      cost.kvBytes - problem.staticBytes,
      CELL_PADDING_TOKENS,
    );
    const gaveWay =
      lowerChunk(problem, settled) || lowerPool(problem, settled, overBytes) || lowerCap(problem, settled, overBytes);
    if (!gaveWay) break;
  }
  settled.poolShort = problem.staticBytes < settled.residentKvBytes || problem.budgetBytes < settled.residentKvBytes;
  settled.chunkShort = !settled.poolShort;
  return settled;
}

function lowerChunk(problem: PlanProblem, draft: Draft): boolean {
  const { flags, rules } = problem;
  if (flags.chunkTokens !== 'auto' || draft.chunkTokens <= rules.comfortableChunkTokens) return false;
  draft.chunkTokens = ladderChunk(rules.chunkLadder, draft.chunkTokens - 1);
  return true;
}

function lowerPool(problem: PlanProblem, draft: Draft, overBytes: number): boolean {
  const { flags } = problem;
  if (draft.layout === 'private' || flags.maxTotalTokens !== 'auto' || draft.bytesPerToken <= 0) return false;
  const tokens = Math.ceil(overBytes / draft.bytesPerToken / CELL_PADDING_TOKENS) * CELL_PADDING_TOKENS;
  const cells = draft.cells - tokens;
  const least = flags.contextTokens === 'auto' ? CELL_PADDING_TOKENS : flags.contextTokens;
  if (cells < least) return false;
  draft.cells = cells;
  draft.poolTokens = cells;
  draft.contextTokens = Math.min(draft.contextTokens, cells);
  return true;
}

function lowerCap(problem: PlanProblem, draft: Draft, overBytes: number): boolean {
  if (problem.flags.runningCap !== 'auto' || draft.layout === 'shared' || draft.runningCap === 1) return false;
  const streams = Math.max(Math.ceil(overBytes / Math.max(draft.cacheBytes ?? 1, 1)), 1);
  draft.runningCap = Math.max(draft.runningCap - streams, 1);
  draft.poolTokens = draft.cells * draft.runningCap;
  return true;
}
