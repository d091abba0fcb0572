import { type GatePlan, type GateState, gate } from '../memory/gate.js';
import type { SchedulerLimits } from './limits.js';
import type { Request } from './request.js';
import type { SequencePool } from './sequence-pool.js';
import type { PrefixMatch } from './sequence-table.js';

/** Cells that admission leaves to each running request, so that it does not preempt at once. Chosen. */
const GROWTH_RESERVE_TOKENS = 16;

/**
 * The gate's question where memory stands: a prefill takes cells and no bytes, unless the pool must grow for it. A larger pool is asked
 * for before idle prefixes go: it costs nobody a hit. What goes, goes now, before the prefill that needs the cells.
 */
export class StandingGate {
  constructor(
    private readonly limits: SchedulerLimits,
    private readonly pool: SequencePool,
  ) {}

  /** Whether `request`, which matched `match` and takes `cells` cells, may start beside the running ones. Asks for growth and evicts as far as that decides. */
  admits(
    request: Request,
    match: PrefixMatch | null,
    running: readonly Request[],
    cells = request.tokenCount + 1,
  ): boolean {
    const { pool } = this;
    const isShared = this.limits.layout === 'shared';
    const heldCells = isShared ? (match?.count ?? 0) : 0;
    const need = { newKvBytes: 0, transientBytes: 0, cells: cells - heldCells };
    const state = isShared ? this.poolState(match, running) : this.streamState(running);
    const plan: GatePlan = { bytes: 0, cells: this.limits.cells - heldCells };
    const decision = gate(need, state, plan);
    if (decision.decision === 'admit') return true;
    if (this.asksForGrowth(need.cells - state.freeCells, state)) return false;
    if (decision.decision !== 'evict') return false;
    pool.evictCells(decision.evictCells, match?.sequence);
    return true;
  }

  /** What running requests still compute is promised to them; the match stays, or evicting would free nothing and lose the hit. */
  private poolState(match: PrefixMatch | null, running: readonly Request[]): GateState {
    const { cells } = this.pool;
    const promised = running.reduce((sum, other) => sum + Math.max(0, other.remaining - 1) + GROWTH_RESERVE_TOKENS, 0);
    return {
      ...this.streamState(running),
      freeCells: cells.totalCells - cells.usedCells - promised,
      evictableCells: cells.usedCells - this.pool.busyCells(match?.sequence),
    };
  }

  /** A stream is its request's alone: what an idle prefix holds of it goes when the request moves in. */
  private streamState(running: readonly Request[]): GateState {
    return {
      headroomBytes: this.pool.headroomBytes,
      reservedBytes: 0,
      freeCells: this.limits.cells,
      evictableCells: 0,
      evictableBytes: 0,
      runningRequests: running.length,
    };
  }

  /** The least growth that would do must fit the headroom, or the wait for running requests is shorter than a move that does not help. */
  private asksForGrowth(missingCells: number, state: GateState): boolean {
    const leastCells = Math.max(missingCells - state.evictableCells, 0);
    const need = { newKvBytes: this.pool.growthBytes(leastCells), transientBytes: 0, cells: 0 };
    const plan: GatePlan = { bytes: Number.POSITIVE_INFINITY, cells: 0 };
    const decision = gate(need, { ...state, freeCells: Number.POSITIVE_INFINITY }, plan);
    return decision.decision === 'admit' && this.pool.wantMore(missingCells);
  }
}
