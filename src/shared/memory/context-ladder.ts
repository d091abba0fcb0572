import type { ContextSpec } from '../engine.js';
import { bytesOf, type ContextCost, type CostModel } from './cost-model.js';
import type { DeviceMemory } from './headroom.js';
import type { Plan } from './plan-types.js';

/** One context that the plan may stand on. */
export interface ContextRung {
  spec: ContextSpec;
  /** Cells of the pool (shared) or of each stream (private). */
  cells: number;
  /** Bytes it takes of the headroom. */
  bytes: number;
}

/** KV that a start takes at once on memory that it shares with everything else. Chosen: made in some 100 ms on a laptop. */
const FIRST_RUNG_KV_BYTES = 256 * 2 ** 20;
/** Rungs at most: each costs a measurement. Chosen: from 1/16 of the plan up. */
const RUNGS_MAX = 5;
/** Streams and pools below this are not worth standing on. Chosen: a short conversation. */
const LEAST_CELLS = 1024;

/**
 * The plan as a ladder: the planned context on top, and halves of it below. A server starts on the lowest useful rung and climbs when
 * requests ask for more, so that it takes memory when there is a use for it. Beside a discrete GPU the memory is nobody else's, and the
 * ladder is the plan alone.
 */
export function contextLadder(plan: Plan, costModel: CostModel, memory: DeviceMemory, isFixed: boolean): ContextRung[] {
  const rungs: ContextRung[] = [rungOf(plan.spec, plan.cost, memory)];
  if (isFixed) return rungs;
  let kvBytes = plan.cost.kvBytes;
  let cells = plan.cells;
  while (rungs.length < RUNGS_MAX && kvBytes > FIRST_RUNG_KV_BYTES && memory !== 'discrete') {
    cells = roundUp(cells / 2);
    if (cells < LEAST_CELLS || cells >= rungs[0].cells) break;
    const spec = { ...plan.spec, cells };
    const cost = costModel.cost(spec);
    kvBytes = cost.kvBytes;
    rungs.unshift(rungOf(spec, cost, memory));
  }
  return rungs;
}

export function rungOf(spec: ContextSpec, cost: ContextCost, memory: DeviceMemory): ContextRung {
  return { spec, cells: spec.cells, bytes: bytesOf(cost, memory) };
}

/** Bytes of one cell's keys and values. */
export function cellBytesOf({ layout, cells, cost, spec }: Plan): number {
  return cost.kvBytes / (layout === 'shared' ? cells : cells * spec.sequences);
}

/** The engine rounds cells to 256. */
function roundUp(cells: number): number {
  return Math.ceil(cells / 256) * 256;
}
