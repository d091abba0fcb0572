import { CELL_PADDING_TOKENS, MIN_CONTEXT_TOKENS } from './constants.js';
import type { Draft } from './draft.js';
import { isShort, ladderChunk } from './draft.js';
import type { PlanProblem } from './plan-problem.js';

/** Corrections at most. Chosen: estimates are straight lines, so one is the rule and more means a model that no line describes. */
const CORRECTIONS_MAX = 8;

/**
 * Costs the draft for good. Where the estimate was too low, what was automatic gives way: first the chunk down to a comfortable one, then
 * the pool or the running cap, then the rest of the chunk and the context. A draft without anything automatic left is short.
 */
export function settle(problem: PlanProblem, draft: Draft): Draft {
  if (isShort(draft)) return draft;
  const settled = { ...draft, reasons: draft.reasons.map((reason) => ({ ...reason })) };
  for (let i = 0; i <= CORRECTIONS_MAX; i++) {
    const cost = problem.cost(settled.layout, settled.runningCap, settled.cells, settled.chunkTokens);
    settled.residentKvBytes = cost.kvBytes;
    settled.activationHeadroomBytes = problem.budgetBytes - cost.kvBytes;
    if (problem.fits(cost)) return withReasons(settled);
    const overBytes = Math.max(problem.totalBytes(cost) - problem.budgetBytes, cost.kvBytes - problem.staticBytes, 1);
    const gaveWay =
      lowerChunk(problem, settled, problem.rules.comfortableChunkTokens) ||
      lowerPool(problem, settled, overBytes) ||
      lowerCap(problem, settled, overBytes) ||
      lowerChunk(problem, settled, problem.rules.minChunkTokens) ||
      lowerContext(problem, settled, overBytes);
    if (!gaveWay) break;
  }
  settled.poolShort = settled.residentKvBytes > Math.min(problem.staticBytes, problem.budgetBytes);
  settled.chunkShort = !settled.poolShort;
  return settled;
}

function lowerChunk(problem: PlanProblem, draft: Draft, leastTokens: number): boolean {
  if (problem.flags.chunkTokens !== 'auto' || draft.chunkTokens <= leastTokens) return false;
  draft.chunkTokens = Math.max(ladderChunk(problem.rules.chunkLadder, draft.chunkTokens - 1), leastTokens);
  return true;
}

function lowerPool(problem: PlanProblem, draft: Draft, overBytes: number): boolean {
  const { flags } = problem;
  if (draft.layout === 'private' || flags.maxTotalTokens !== 'auto' || draft.bytesPerToken <= 0) return false;
  const least = flags.contextTokens === 'auto' ? MIN_CONTEXT_TOKENS : flags.contextTokens;
  return lowerCells(draft, overBytes / draft.bytesPerToken, least);
}

function lowerCap(problem: PlanProblem, draft: Draft, overBytes: number): boolean {
  if (problem.flags.runningCap !== 'auto' || draft.layout === 'shared' || draft.runningCap === 1) return false;
  const streams = Math.max(Math.ceil(overBytes / Math.max(draft.cacheBytes ?? 1, 1)), 1);
  draft.runningCap = Math.max(draft.runningCap - streams, 1);
  draft.poolTokens = draft.cells * draft.runningCap;
  return true;
}

/** Private streams: an automatic context, last of all, since it is what the user sees. */
function lowerContext(problem: PlanProblem, draft: Draft, overBytes: number): boolean {
  if (problem.flags.contextTokens !== 'auto' || draft.layout === 'shared' || draft.bytesPerToken <= 0) return false;
  return lowerCells(draft, overBytes / draft.bytesPerToken / draft.runningCap, MIN_CONTEXT_TOKENS);
}

function lowerCells(draft: Draft, tokens: number, leastTokens: number): boolean {
  const padded = Math.ceil(draft.cells / CELL_PADDING_TOKENS) * CELL_PADDING_TOKENS;
  const cells = padded - Math.ceil(tokens / CELL_PADDING_TOKENS) * CELL_PADDING_TOKENS;
  const least = Math.ceil(leastTokens / CELL_PADDING_TOKENS) * CELL_PADDING_TOKENS;
  if (padded <= least) return false;
  draft.cells = Math.max(cells, least);
  draft.poolTokens = draft.layout === 'shared' ? draft.cells : draft.cells * draft.runningCap;
  draft.contextTokens = Math.min(draft.contextTokens, draft.cells);
  return true;
}

/** Reasons are sentences about values: one whose value gave way says so. */
function withReasons(draft: Draft): Draft {
  const values = { context: draft.contextTokens, running: draft.runningCap, pool: draft.poolTokens } as const;
  for (const reason of draft.reasons) {
    if (reason.cap === 'layout' || reason.cap === 'chunk') continue;
    const value = values[reason.cap];
    if (reason.value === value) continue;
    reason.value = value;
    reason.sentence = `${value} ${NOUNS[reason.cap]}: lowered until the measured cost fitted`;
  }
  return draft;
}

const NOUNS = {
  context: 'tokens of context for a request',
  running: 'running requests',
  pool: 'tokens of KV',
} as const;
