import { MIN_CHUNK_TOKENS, PREFILL_SAFETY_FRACTION } from './constants.js';
import { safeChunkTokens } from './safe-chunk.js';

export interface LiveChunkInput {
  headroomBytes: number;
  /** Bytes that the request's own cache will take before the chunk runs; 0 where it reuses one or has cells of a pool. */
  newCacheBytes: number;
  /** Transient bytes of a prompt token for each context token; 0 where all compute memory stands already. */
  bytesPerTokenContext: number;
  contextTokens: number;
  /** What the plan and the probe confirmed for a chunk. */
  confirmedChunkTokens: number;
  /** The context's compute buffers were made for this many prompt tokens; null: the allocator grows with the chunk. */
  standingChunkTokens: number | null;
  safetyFraction?: number;
}

/**
 * Prompt tokens of the next step by memory: the safe chunk of live headroom, at least the useful minimum and at most the context. The
 * floor never exceeds what was confirmed, and where compute buffers stand nothing exceeds those.
 */
export function liveChunkTokens(input: LiveChunkInput): number {
  const { contextTokens, confirmedChunkTokens, standingChunkTokens } = input;
  const free = input.headroomBytes - input.newCacheBytes;
  const safe = safeChunkTokens(
    free,
    input.bytesPerTokenContext,
    contextTokens,
    input.safetyFraction ?? PREFILL_SAFETY_FRACTION,
  );
  const floor = Math.min(MIN_CHUNK_TOKENS, confirmedChunkTokens);
  const live = Math.min(Math.max(safe, floor), contextTokens);
  return standingChunkTokens === null ? live : Math.min(live, standingChunkTokens, confirmedChunkTokens);
}
