import { ACTIVATION_BYTES_PER_TOKEN_CONTEXT_HEAD } from '../../src/shared/memory/constants.js';
import { GrowingCostModel } from '../../src/shared/memory/growing-cost-model.js';
import { kvBytesPerToken } from '../../src/shared/memory/kv-shape.js';
import type { PlanFlags } from '../../src/shared/memory/plan-types.js';
import { planContext } from '../../src/shared/memory/planner.js';
import { readingsOf } from './readings.js';
import { type Fields, type Json, numberOrNull, type VectorRow } from './vectors.js';

export const STARTUP_INPUTS = [
  ...['L', 'A', 'F', 'f', 'C', 'R', 'P', 'radix'],
  ...['act', 'bytes_per_slot', 'layers', 'kv_heads', 'q_heads', 'head_dim', 'element_bytes'],
];

/** The model of rows that name no shape: 48 layers, 8 KV heads of 128 in 16 bits, 32 query heads. */
const DEFAULT_SHAPE = { layers: 48, kv_heads: 8, head_dim: 128, q_heads: 32, element_bytes: 2 };

/** Runs a `startup` row through the planner that serves, with the analytic cost model of a growing allocator. */
export function startupRow(row: VectorRow): Json {
  const shape = (name: keyof typeof DEFAULT_SHAPE) => numberOrNull(row, name) ?? DEFAULT_SHAPE[name];
  const heads = new Array<number>(shape('layers')).fill(shape('kv_heads'));
  const kvShape = { kvHeads: heads, keyLength: shape('head_dim'), valueLength: shape('head_dim') };
  const perToken = (kvBytesPerToken(kvShape, 'f16', 'f16') * shape('element_bytes')) / 2;
  const costModel = new GrowingCostModel(
    numberOrNull(row, 'bytes_per_slot') ?? perToken,
    numberOrNull(row, 'act') ?? ACTIVATION_BYTES_PER_TOKEN_CONTEXT_HEAD * shape('q_heads'),
  );
  const radix = row.inputs.radix === true;
  const flags: PlanFlags = {
    contextTokens: numberOrNull(row, 'C') ?? 'auto',
    runningCap: numberOrNull(row, 'R') ?? 'auto',
    chunkTokens: 'auto',
    memFraction: numberOrNull(row, 'f') ?? 'auto',
    maxTotalTokens: numberOrNull(row, 'P') ?? 'auto',
    // A prefix pool is shared by all requests; without one each has a cache of its own.
    layout: radix ? 'shared' : 'private',
    keyType: 'f16',
    valueType: 'f16',
    flashAttention: 'off',
    prefixCache: radix,
  };
  const plan = planContext(
    {
      model: { trainContextTokens: 0, weightsBytes: 0 },
      machine: {
        memory: 'unified',
        readings: readingsOf(row),
        uncountedWeightsBytes: 0,
        threads: 1,
        promptThreads: 1,
      },
      flags,
    },
    costModel,
  );
  const a = plan.arithmetic;
  const got: Fields = {
    bytes_per_slot: a.bytesPerToken,
    private_cache_bytes: a.cacheBytes,
    dynamic_budget: a.budgetBytes,
    running_cap: a.runningCap,
    pool: a.poolTokens,
    resident_kv: a.residentKvBytes,
    activation_headroom: a.activationHeadroomBytes,
    raw_chunk: a.rawChunkTokens,
    chunk_cap: plan.refused ? null : a.chunkTokens,
    refused: plan.refused
      ? { pool_short: plan.poolShort, chunk_short: plan.chunkShort, hint: plan.fractionHint }
      : false,
  };
  return got;
}
