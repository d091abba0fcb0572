import {
  AUTO_CONTEXT_MOST_CPU_TOKENS,
  AUTO_CONTEXT_SHARE,
  AUTO_CONTEXT_TOKENS,
  CELL_PADDING_TOKENS,
  MIN_CONTEXT_TOKENS,
  MIN_POOL_TOKENS,
  MIN_SPAN_TOKENS,
  TYPICAL_SPAN_TOKENS,
} from './constants.js';
import { CostCurve } from './cost-curve.js';
import { type Draft, mostPromptTokens } from './draft.js';
import { paddedCells } from './kv-shape.js';
import type { PlanProblem } from './plan-problem.js';
import { sharedReasons } from './shared-reasons.js';

/**
 * The shared pool of a standing engine: any request takes any cell, so a context costs nothing until it is used and memory goes
 * first to the context of one request, then to a pool for the running set, then to the chunk. In this order more memory never makes
 * any of them smaller.
 */
export function draftShared(problem: PlanProblem): Draft {
  const stage = chooseStage(problem);
  const { contextTokens, cellsMost } = stage;
  const cap = stage.cap;
  const { poolTokens, mostChunkTokens } = choosePool(problem, stage);
  const poolFits = poolTokens >= contextTokens && paddedCells(poolTokens, CELL_PADDING_TOKENS) <= cellsMost;
  const chunk = poolFits
    ? chooseChunk(problem, stage, poolTokens, mostChunkTokens)
    : { tokens: stage.chunkTokens, rawTokens: 0 };
  const kvFits = kvAloneFits(problem, stage);
  const cost = problem.cost('shared', cap, Math.max(poolTokens, 1), Math.max(chunk.tokens, 1));
  return {
    layout: 'shared',
    contextTokens,
    runningCap: cap,
    poolTokens,
    cells: paddedCells(poolTokens, CELL_PADDING_TOKENS),
    chunkTokens: chunk.tokens,
    poolShort: !poolFits && (!kvFits || problem.flags.maxTotalTokens !== 'auto'),
    chunkShort: (!poolFits && kvFits && problem.flags.maxTotalTokens === 'auto') || (poolFits && chunk.tokens === 0),
    conflict: conflictOf(problem, contextTokens),
    reasons: sharedReasons(problem, stage, poolTokens),
    bytesPerToken: stage.bytesPerToken,
    cacheBytes: null,
    memoryRunningCap: cap,
    memoryChunkTokens: chunk.tokens,
    rawChunkTokens: chunk.tokens,
    residentKvBytes: cost.kvBytes,
    activationHeadroomBytes: problem.budgetBytes - cost.kvBytes,
  };
}

/** The context that an automatic shared plan would give a request: private streams offer the same. */
export function automaticContext(problem: PlanProblem): number {
  return chooseStage(problem).contextTokens;
}

/**
 * The pool of a growing allocator: made at once and as large as the fraction allows, shared by all; nothing is charged to a single
 * request, so memory sets no running cap and no chunk here, and the live gate does.
 */
export function draftGreedyPool(problem: PlanProblem): Draft {
  const { flags, headroom } = problem;
  const bytesPerToken = problem.cost('shared', 1, 1, 1).kvBytes;
  const systemBytes = headroom.terms.find((term) => term.source === 'system')?.bytes ?? headroom.bytes;
  const poolBytes = Math.max(Math.min(problem.memFraction * systemBytes, problem.staticBytes), 0);
  const greedyTokens = Math.max(Math.floor(poolBytes / bytesPerToken), 0);
  const known = flags.contextTokens !== 'auto' || problem.model.trainContextTokens > 0;
  const fallback = known ? greedyTokens : Math.max(greedyTokens, MIN_POOL_TOKENS);
  const poolTokens = flags.maxTotalTokens === 'auto' ? fallback : flags.maxTotalTokens;
  const contextTokens =
    flags.contextTokens !== 'auto' ? flags.contextTokens : problem.model.trainContextTokens || poolTokens;
  const residentKvBytes = poolTokens * bytesPerToken;
  return {
    layout: 'shared',
    contextTokens,
    runningCap: flags.runningCap === 'auto' ? Math.max(Math.floor(poolTokens / MIN_SPAN_TOKENS), 1) : flags.runningCap,
    poolTokens,
    cells: poolTokens,
    chunkTokens: flags.chunkTokens === 'auto' ? contextTokens : flags.chunkTokens,
    poolShort: poolTokens < contextTokens || poolTokens > fallback,
    chunkShort: false,
    conflict: null,
    reasons: [],
    bytesPerToken,
    cacheBytes: null,
    memoryRunningCap: null,
    memoryChunkTokens: null,
    rawChunkTokens: null,
    residentKvBytes,
    activationHeadroomBytes: problem.headroom.bytes - residentKvBytes,
  };
}

/** What was settled before the pool: how many requests, how small a chunk gives way, and what fits at that. */
export interface SharedStage {
  cap: number;
  /** The chunk that context and pool may crowd out no further. */
  chunkTokens: number;
  contextTokens: number;
  /** Cells that fit, as far as this plan has any use for them. */
  cellsMost: number;
  /** More cells than `cellsMost` would be of no use, so memory is not what ends there. */
  allUsefulFit: boolean;
  bytesPerToken: number;
  /** Not even a small automatic context fitted beside a useful chunk: one request, the smallest chunk. */
  lastResort: boolean;
}

function chooseStage(problem: PlanProblem): SharedStage {
  const { flags, rules } = problem;
  const boundCap = flags.runningCap === 'auto' ? rules.runningBound : flags.runningCap;
  const chunk = flags.chunkTokens === 'auto' ? rules.comfortableChunkTokens : flags.chunkTokens;
  const first = stageAt(problem, boundCap, chunk, false);
  if (first.cellsMost >= leastPool(problem)) return first;
  const lastCap = flags.runningCap === 'auto' ? 1 : flags.runningCap;
  const lastChunk = flags.chunkTokens === 'auto' ? rules.minChunkTokens : flags.chunkTokens;
  if (lastCap === boundCap && lastChunk === chunk) return first;
  return stageAt(problem, lastCap, lastChunk, true);
}

function stageAt(problem: PlanProblem, boundCap: number, chunkTokens: number, lastResort: boolean): SharedStage {
  const { flags, rules, budgetBytes, staticBytes } = problem;
  const curve = new CostCurve(
    (cells) => {
      const cost = problem.cost('shared', boundCap, cells, chunkTokens);
      return { totalBytes: problem.totalBytes(cost), kvBytes: cost.kvBytes };
    },
    mostUsefulCells(problem, boundCap),
  );
  // A step is never longer than the pool, so beside a large explicit chunk the curve has a kink that a line from its ends misses; and
  // before a refusal the very point that decides is asked for.
  if (flags.chunkTokens !== 'auto' || lastResort) curve.at(Math.min(leastPool(problem), curve.mostCells));
  const cellsMost = curve.largest(budgetBytes, staticBytes);
  const shareCells = curve.estimate(budgetBytes * AUTO_CONTEXT_SHARE, staticBytes);
  const contextTokens = lastResort ? leastContext(problem) : chooseContext(problem, cellsMost, shareCells);
  const poolMost = flags.maxTotalTokens === 'auto' ? cellsMost : Math.min(cellsMost, flags.maxTotalTokens);
  const byPool = Math.max(Math.floor(poolMost / MIN_SPAN_TOKENS), 1);
  return {
    cap: flags.runningCap === 'auto' ? Math.min(byPool, boundCap, rules.runningBound) : flags.runningCap,
    chunkTokens,
    contextTokens,
    cellsMost,
    allUsefulFit: cellsMost >= curve.mostCells,
    bytesPerToken: curve.kvBytesPerToken,
    lastResort,
  };
}

/** Cells beyond which nothing in this plan would become better. */
function mostUsefulCells(problem: PlanProblem, cap: number): number {
  const { flags } = problem;
  const context = flags.contextTokens === 'auto' ? trainContext(problem) : flags.contextTokens;
  const total = flags.maxTotalTokens === 'auto' ? cap * TYPICAL_SPAN_TOKENS : flags.maxTotalTokens;
  return paddedCells(Math.max(context, total), CELL_PADDING_TOKENS);
}

function trainContext(problem: PlanProblem): number {
  return problem.model.trainContextTokens || AUTO_CONTEXT_TOKENS;
}

function leastContext(problem: PlanProblem): number {
  const { contextTokens } = problem.flags;
  return contextTokens === 'auto' ? Math.min(MIN_CONTEXT_TOKENS, trainContext(problem)) : contextTokens;
}

/** Cells of the smallest pool that the flags allow. */
function leastPool(problem: PlanProblem): number {
  const { maxTotalTokens } = problem.flags;
  const tokens = Math.max(leastContext(problem), maxTotalTokens === 'auto' ? 0 : maxTotalTokens);
  return paddedCells(tokens, CELL_PADDING_TOKENS);
}

function chooseContext(problem: PlanProblem, cellsMost: number, shareCells: number): number {
  const { flags } = problem;
  if (flags.contextTokens !== 'auto') return flags.contextTokens;
  const most = flags.maxTotalTokens === 'auto' ? cellsMost : Math.min(cellsMost, flags.maxTotalTokens);
  const sensible = problem.machine.memory === 'host' ? AUTO_CONTEXT_MOST_CPU_TOKENS : Number.POSITIVE_INFINITY;
  const wanted = Math.min(trainContext(problem), sensible, Math.max(AUTO_CONTEXT_TOKENS, shareCells));
  return Math.max(Math.min(wanted, most), leastContext(problem));
}

interface PoolChoice {
  poolTokens: number;
  /** A pool that memory cut short leaves no larger chunk: what is left over is an accident of rounding, and more memory would take it
   *  away again. */
  mostChunkTokens: number;
}

function choosePool(problem: PlanProblem, stage: SharedStage): PoolChoice {
  const { flags } = problem;
  const unlimited = Number.POSITIVE_INFINITY;
  if (flags.maxTotalTokens !== 'auto') return { poolTokens: flags.maxTotalTokens, mostChunkTokens: unlimited };
  const least = paddedCells(stage.contextTokens, CELL_PADDING_TOKENS);
  if (stage.lastResort) return { poolTokens: least, mostChunkTokens: unlimited };
  const forRunning = stage.cap * Math.min(stage.contextTokens, TYPICAL_SPAN_TOKENS);
  const wanted = Math.max(paddedCells(forRunning, CELL_PADDING_TOKENS), least);
  const beside = poolBesideGoodChunk(problem, stage, wanted, least);
  const poolTokens = Math.max(Math.min(beside.poolTokens, stage.cellsMost), least);
  return poolTokens >= wanted ? { poolTokens, mostChunkTokens: unlimited } : { ...beside, poolTokens };
}

/**
 * The pool that may be had before the chunk is good: half of what is wanted. Once the good chunk fits beside that half, the pool grows on
 * beside it. Both only ever grow with memory.
 */
function poolBesideGoodChunk(problem: PlanProblem, stage: SharedStage, wanted: number, least: number): PoolChoice {
  const { flags, rules, budgetBytes, staticBytes } = problem;
  const good = rules.goodChunkTokens;
  const base = stage.chunkTokens;
  if (flags.chunkTokens !== 'auto' || good <= base) return { poolTokens: wanted, mostChunkTokens: base };
  const costAt = (cells: number) => problem.cost('shared', stage.cap, cells, good);
  if (problem.fits(costAt(wanted))) return { poolTokens: wanted, mostChunkTokens: good };
  const half = Math.max(paddedCells(wanted / 2, CELL_PADDING_TOKENS), least);
  if (!problem.fits(costAt(half))) return { poolTokens: half, mostChunkTokens: base };
  const curve = new CostCurve((cells) => {
    const cost = costAt(cells);
    return { totalBytes: problem.totalBytes(cost), kvBytes: cost.kvBytes };
  }, wanted);
  return { poolTokens: Math.max(curve.largest(budgetBytes, staticBytes), half), mostChunkTokens: good };
}

/** The largest chunk on the ladder that fits beside the whole pool; 0: none. */
function chooseChunk(problem: PlanProblem, stage: SharedStage, poolTokens: number, mostTokens: number) {
  const { flags, rules } = problem;
  const fits = (chunk: number) => problem.fits(problem.cost('shared', stage.cap, poolTokens, chunk));
  if (flags.chunkTokens !== 'auto') {
    const tokens = flags.chunkTokens;
    return { tokens: fits(tokens) ? tokens : 0, rawTokens: tokens };
  }
  const most = Math.min(mostPromptTokens(problem, stage.contextTokens, stage.cap), poolTokens);
  const useful = Math.min(Math.max(most, rules.minChunkTokens), mostTokens);
  const tokens = rules.chunkLadder.find((chunk) => chunk <= useful && fits(chunk)) ?? 0;
  return { tokens, rawTokens: tokens };
}

function kvAloneFits(problem: PlanProblem, stage: SharedStage): boolean {
  const bytes = paddedCells(stage.contextTokens, CELL_PADDING_TOKENS) * stage.bytesPerToken;
  return bytes <= Math.min(problem.budgetBytes, problem.staticBytes);
}

function conflictOf(problem: PlanProblem, contextTokens: number): string | null {
  const { flags } = problem;
  if (flags.maxTotalTokens === 'auto' || contextTokens <= flags.maxTotalTokens) return null;
  return `a context of ${contextTokens} tokens needs --max-total-tokens of at least as much, not ${flags.maxTotalTokens}`;
}
