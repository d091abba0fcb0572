import { CELL_PADDING_TOKENS, TYPICAL_SPAN_TOKENS } from './constants.js';
import { type ContextRung, rungOf } from './context-ladder.js';
import type { CostModel } from './cost-model.js';
import type { DeviceMemory } from './headroom.js';
import type { Plan } from './plan-types.js';

/** Measurements for one rung at most. Chosen: streams differ from the pool by little but rounding, which two corrections settle. */
const TRIES_MAX = 6;

/**
 * The same memory in private streams, whose number and length change with the requests. A CPU looks at the mask of every used cell of a shared
 * pool, whoever they belong to (docs/benchmarks.md); full private spans for all would not fit. Up to the planned pool a rung has more streams
 * of a typical request's length; beyond it, with the same bytes, fewer and longer ones, the last for one request that has everything.
 *
 * `pools`: the ladder of the shared plan; it stays where streams of its bytes would not hold the longest request that the plan promises.
 */
export function streamLadder(
  pools: ContextRung[],
  { runningCap, contextTokens }: Pick<Plan, 'runningCap' | 'contextTokens'>,
  costModel: CostModel,
  memory: DeviceMemory,
): ContextRung[] {
  const streamsOf = ({ spec }: ContextRung, sequences: number, cells: number): ContextRung => {
    const shape = { ...spec, layout: 'private' as const, sequences, cells };
    return rungOf(shape, costModel.cost(shape), memory);
  };
  const rungs: ContextRung[] = [];
  for (const { pool, sequences, cells } of shapesOf(pools, runningCap)) {
    // Shorter than the pool by as much as their own buffers are larger.
    let rung = streamsOf(pool, sequences, cells);
    for (let i = 0; i < TRIES_MAX && rung.bytes > pool.bytes && rung.cells > CELL_PADDING_TOKENS; i++)
      rung = streamsOf(pool, sequences, rung.cells - CELL_PADDING_TOKENS);
    const last = rungs[rungs.length - 1];
    const isNew = last === undefined || rung.spec.sequences !== last.spec.sequences || rung.cells !== last.cells;
    if (isNew && rung.bytes <= pool.bytes) rungs.push(rung);
  }
  const longest = rungs[rungs.length - 1]?.cells ?? 0;
  return longest >= contextTokens ? rungs : pools;
}

function shapesOf(pools: ContextRung[], runningCap: number) {
  const top = pools[pools.length - 1];
  const most = streamsIn(top.cells, runningCap);
  const cells = padDown(top.cells / most);
  // A pool that is smaller than one stream would be left at the first request.
  const shapes = pools
    .filter((pool) => pool.cells >= cells)
    .map((pool) => ({ pool, sequences: Math.min(Math.floor(pool.cells / cells), most), cells }));
  for (let sequences = most >> 1; sequences >= 1; sequences >>= 1)
    shapes.push({ pool: top, sequences, cells: padDown(top.cells / sequences) });
  return shapes;
}

/** As many as have room for a typical request each. */
export function streamsIn(cells: number, runningCap: number): number {
  return Math.min(Math.max(Math.floor(cells / TYPICAL_SPAN_TOKENS), 1), runningCap);
}

function padDown(cells: number): number {
  return Math.max(Math.floor(cells / CELL_PADDING_TOKENS), 1) * CELL_PADDING_TOKENS;
}
