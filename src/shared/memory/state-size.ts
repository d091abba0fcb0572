import { cellBytesOf } from './context-ladder.js';
import type { CostModel } from './cost-model.js';
import type { Plan } from './plan-types.js';

/** The engine rounds cells to this. */
const CELL_STEP = 256;

/** What the saved state of a sequence takes, bytes: for each of its tokens, and whatever their number. */
export interface StateSize {
  cellBytes: number;
  stateBytes: number;
}

/**
 * Where everything is in cells, a state is its cells. Recurrent state and windows are there once for a sequence: what a context of another size
 * takes tells the two apart. A window is counted whole, and with the room that the engine has beside it.
 */
export function stateSizeOf(plan: Plan, costModel: CostModel, canTrim: boolean): StateSize {
  if (canTrim) return { cellBytes: cellBytesOf(plan), stateBytes: 0 };
  const { layout, cells, cost, spec } = plan;
  const half = Math.ceil(cells / 2 / CELL_STEP) * CELL_STEP;
  const otherCells = half < cells ? half : 2 * cells;
  const other = costModel.cost({ ...spec, cells: otherCells });
  const streams = layout === 'shared' ? 1 : spec.sequences;
  const cellBytes = Math.max(0, (cost.kvBytes - other.kvBytes) / (cells - otherCells) / streams);
  const stateBytes = Math.ceil((cost.kvBytes - cellBytes * cells * streams) / spec.sequences);
  return { cellBytes, stateBytes: Math.max(0, stateBytes) };
}
