/** What a prefill takes beyond what stands already. Bytes; all of them ≥ 0. */
export interface PrefillNeed {
  /** KV for prompt and output that is not there yet: a new private cache, or growth. 0 where it comes from a standing pool. */
  newKvBytes: number;
  /** Transient of the chunk that will run, at the prompt's end. 0 where compute memory stands. */
  transientBytes: number;
  /** KV cells of a standing pool that prompt and output will fill, prefix hits left out. */
  cells: number;
}

export interface GateState {
  /** Live headroom (headroom.ts). */
  headroomBytes: number;
  /** Needs of admitted requests that the readings do not show yet. */
  reservedBytes: number;
  /** Free cells of the standing pool, less what admitted requests will still fill. Infinity where there is no pool. */
  freeCells: number;
  /** Cells of idle cached prefixes: they go when asked to. */
  evictableCells: number;
  /** Bytes that evicting idle prefixes gives back to the system; 0 where cells stand. */
  evictableBytes: number;
  runningRequests: number;
}

/** What the plan can hold with nothing else there. */
export interface GatePlan {
  bytes: number;
  cells: number;
}

export type GateDecision =
  | { decision: 'admit'; needBytes: number; headroomBytes: number; reason: 'fits' | 'nothing-else-runs' }
  | { decision: 'evict'; needBytes: number; headroomBytes: number; evictBytes: number; evictCells: number }
  | { decision: 'wait'; needBytes: number; headroomBytes: number; shortBytes: number; shortCells: number }
  | { decision: 'never'; needBytes: number; planBytes: number; shortBytes: number; shortCells: number };

/** Transient bytes of the largest chunk that this prompt will run with. */
export function chunkTransientBytes(bytesPerTokenContext: number, chunkTokens: number, promptTokens: number): number {
  return bytesPerTokenContext * Math.min(chunkTokens, promptTokens) * promptTokens;
}

/**
 * Whether a prefill may start. *never*: the plan could not hold it alone. *admit*: its need and all reservations fit the headroom.
 * *evict*: it fits once idle prefixes are gone. *wait*: for something that runs, which will free memory.
 *
 * A refusal always leaves something freeing. When nothing runs and nothing is cached, a request that fits the plan is admitted
 * whatever a stale reading says: else a guard that only counts could refuse for hours.
 */
export function gate(need: PrefillNeed, state: GateState, plan: GatePlan): GateDecision {
  const needBytes = need.newKvBytes + need.transientBytes;
  const { headroomBytes } = state;
  if (needBytes > plan.bytes || need.cells > plan.cells) {
    const shortBytes = Math.max(needBytes - plan.bytes, 0);
    const shortCells = Math.max(need.cells - plan.cells, 0);
    return { decision: 'never', needBytes, planBytes: plan.bytes, shortBytes, shortCells };
  }
  // A need of nothing cannot fail on bytes: the memory it uses stands, whatever the reading is.
  const shortBytes = needBytes === 0 ? 0 : Math.max(needBytes + state.reservedBytes - headroomBytes, 0);
  const shortCells = Math.max(need.cells - state.freeCells, 0);
  if (shortBytes === 0 && shortCells === 0) return { decision: 'admit', needBytes, headroomBytes, reason: 'fits' };
  if (shortBytes <= state.evictableBytes && shortCells <= state.evictableCells) {
    return { decision: 'evict', needBytes, headroomBytes, evictBytes: shortBytes, evictCells: shortCells };
  }
  if (state.runningRequests > 0) return { decision: 'wait', needBytes, headroomBytes, shortBytes, shortCells };
  if (state.evictableBytes > 0 || state.evictableCells > 0) {
    // Nothing runs, so nothing else will free memory: all idle prefixes go, then the readings are taken anew.
    const evictBytes = Math.min(shortBytes, state.evictableBytes);
    const evictCells = Math.min(shortCells, state.evictableCells);
    return {
      decision: 'evict',
      needBytes,
      headroomBytes,
      evictBytes: evictBytes || state.evictableBytes,
      evictCells: evictCells || state.evictableCells,
    };
  }
  return { decision: 'admit', needBytes, headroomBytes, reason: 'nothing-else-runs' };
}
