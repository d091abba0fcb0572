import type { KvLayout } from '../engine.js';
import type { PlanProblem } from './plan-problem.js';
import type { CapReason } from './plan-types.js';

/** A plan before it is costed for good. `poolShort` and `chunkShort` make it a refusal. */
export interface Draft {
  layout: KvLayout;
  /** The pool's memory may be made into private streams; left out: no. */
  asStreams?: boolean;
  contextTokens: number;
  runningCap: number;
  poolTokens: number;
  cells: number;
  chunkTokens: number;
  poolShort: boolean;
  chunkShort: boolean;
  /** Two flags that contradict each other; null: none do. */
  conflict: string | null;
  reasons: CapReason[];
  bytesPerToken: number;
  cacheBytes: number | null;
  /** What memory alone says; null: it sets no limit. */
  memoryRunningCap: number | null;
  memoryChunkTokens: number | null;
  rawChunkTokens: number | null;
  residentKvBytes: number;
  activationHeadroomBytes: number;
}

export function isShort(draft: Draft): boolean {
  return draft.poolShort || draft.chunkShort || draft.conflict !== null;
}

/**
 * Prompt tokens that one step can have any use for. A GPU is the faster the more it gets at once, so several short prompts share a step
 * there; on a CPU the speed is the same from a few dozen tokens up, and a second prompt would only delay the first one's token.
 */
export function mostPromptTokens(problem: PlanProblem, contextTokens: number, runningCap: number): number {
  return problem.machine.memory === 'host' ? contextTokens : contextTokens * runningCap;
}

/** The largest entry of `ladder` that is at most `tokens`; 0: none. */
export function ladderChunk(ladder: readonly number[], tokens: number): number {
  return ladder.find((chunk) => chunk <= tokens) ?? 0;
}
