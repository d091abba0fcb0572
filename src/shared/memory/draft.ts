import type { KvLayout } from '../engine.js';
import type { CapReason } from './plan-types.js';

/** A plan before it is costed for good. `poolShort` and `chunkShort` make it a refusal. */
export interface Draft {
  layout: KvLayout;
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

/** The largest entry of `ladder` that is at most `tokens`; 0: none. */
export function ladderChunk(ladder: readonly number[], tokens: number): number {
  return ladder.find((chunk) => chunk <= tokens) ?? 0;
}
