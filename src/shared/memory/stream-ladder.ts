import { CELL_PADDING_TOKENS, TYPICAL_SPAN_TOKENS } from './constants.js';
import { type ContextRung, rungOf } from './context-ladder.js';
import type { CostModel } from './cost-model.js';
import type { DeviceMemory } from './headroom.js';

/** Measurements for one rung at most. Chosen: streams differ from the pool by little but rounding, which two corrections settle. */
const TRIES_MAX = 6;

/**
 * The same memory in private streams, whose number and length change with the requests. A CPU looks at the mask of every used cell of a shared
 * pool, whoever they belong to (docs/benchmarks.md); full private spans for all would not fit. Up to the planned pool a rung has more streams
 * of a typical request's length; beyond it, with the same bytes, fewer and longer ones, the last for one request that has everything.
 *
 * `pools`: the ladder of the shared plan.
 */
export function streamLadder(
  pools: readonly ContextRung[],
  runningCap: number,
  costModel: CostModel,
  memory: DeviceMemory,
): ContextRung[] {
  const top = pools[pools.length - 1];
  const most = streamsIn(top.cells, runningCap);
  const cells = padDown(top.cells / most);
  const shapes: Array<{ pool: ContextRung; sequences: number; cells: number }> = [];
  // A pool that is smaller than one stream would be left at the first request.
  for (const pool of pools.filter((pool) => pool.cells >= cells))
    shapes.push({ pool, sequences: Math.min(Math.floor(pool.cells / cells), most), cells });
  for (let sequences = most >> 1; sequences >= 1; sequences >>= 1)
    shapes.push({ pool: top, sequences, cells: padDown(top.cells / sequences) });
  const rungs: ContextRung[] = [];
  for (const { pool, sequences, cells } of shapes) {
    const rung = withinPool(pool, sequences, cells, costModel, memory);
    const last = rungs[rungs.length - 1];
    const isNew = last === undefined || rung.spec.sequences !== last.spec.sequences || rung.cells !== last.cells;
    if (isNew) rungs.push(rung);
  }
  return rungs;
}

/** As many as have room for a typical request each. */
export function streamsIn(cells: number, runningCap: number): number {
  return Math.min(Math.max(Math.floor(cells / TYPICAL_SPAN_TOKENS), 1), runningCap);
}

/** Streams that take no more than the pool: shorter by as much as their own buffers are larger. */
function withinPool(
  pool: ContextRung,
  sequences: number,
  cells: number,
  costModel: CostModel,
  memory: DeviceMemory,
): ContextRung {
  let rung = streamsOf(pool, sequences, cells, costModel, memory);
  for (let i = 0; i < TRIES_MAX && rung.bytes > pool.bytes && rung.cells > CELL_PADDING_TOKENS; i++)
    rung = streamsOf(pool, sequences, rung.cells - CELL_PADDING_TOKENS, costModel, memory);
  return rung;
}

function streamsOf(
  pool: ContextRung,
  sequences: number,
  cells: number,
  costModel: CostModel,
  memory: DeviceMemory,
): ContextRung {
  const spec = { ...pool.spec, layout: 'private' as const, sequences, cells };
  return rungOf(spec, costModel.cost(spec), memory);
}

function padDown(cells: number): number {
  return Math.max(Math.floor(cells / CELL_PADDING_TOKENS), 1) * CELL_PADDING_TOKENS;
}
