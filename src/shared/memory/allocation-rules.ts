import {
  CHUNK_LADDER_CPU,
  CHUNK_LADDER_GPU,
  CHUNKS_LAST_RESORT,
  DEFAULT_MEM_FRACTION,
  DISCRETE_RUNTIME_EXTRA_BYTES,
  GOOD_CHUNK_CPU_TOKENS,
  GOOD_CHUNK_GPU_TOKENS,
  HOST_GROWTH_BYTES,
  MARGIN_FRACTION,
  MAX_SHARE_MARGIN_BYTES,
  MIN_CHUNK_TOKENS,
  MIN_MARGIN_BYTES,
  POOL_SLACK,
  PREFILL_SAFETY_FRACTION,
  RUNNING_BOUND_CPU_MAX,
  RUNNING_BOUND_CPU_MIN,
  RUNNING_BOUND_CPU_PER_CORE,
  RUNNING_BOUND_DISCRETE_GPU,
  RUNNING_BOUND_UNIFIED_GPU,
  SPARE_CACHES,
} from './constants.js';
import type { AllocationRules } from './cost-model.js';
import type { DeviceMemory } from './headroom.js';

/** Rules for an allocator that takes caches and transients while it runs: the margin is the safety fraction and the spare caches. */
export const GROWING_RULES: AllocationRules = {
  allocation: 'growing',
  prefillSafetyFraction: PREFILL_SAFETY_FRACTION,
  spareCaches: SPARE_CACHES,
  poolSlack: POOL_SLACK,
  chunkLadder: [],
  comfortableChunkTokens: MIN_CHUNK_TOKENS,
  goodChunkTokens: MIN_CHUNK_TOKENS,
  minChunkTokens: MIN_CHUNK_TOKENS,
  runningBound: Number.MAX_SAFE_INTEGER,
  runningBoundReason: '',
  defaultMemFraction: DEFAULT_MEM_FRACTION,
  marginBytes: () => 0,
  marginReason: 'none: the safety fraction and the spare caches are the margin',
};

/** Rules for an engine that takes everything when the context is made and nothing after. */
export function standingRules(memory: DeviceMemory, cores: number): AllocationRules {
  const ladder = memory === 'host' ? CHUNK_LADDER_CPU : CHUNK_LADDER_GPU;
  return {
    allocation: 'standing',
    prefillSafetyFraction: 1,
    spareCaches: 0,
    poolSlack: 1,
    chunkLadder: [...ladder, ...CHUNKS_LAST_RESORT],
    comfortableChunkTokens: ladder[ladder.length - 1],
    goodChunkTokens: memory === 'host' ? GOOD_CHUNK_CPU_TOKENS : GOOD_CHUNK_GPU_TOKENS,
    minChunkTokens: Math.min(...CHUNKS_LAST_RESORT),
    ...runningBound(memory, cores),
    // Compute memory is counted to the byte and the margin is kept besides, so no further share is held back.
    defaultMemFraction: 1,
    marginBytes: standingMarginBytes,
    marginReason: `${MARGIN_FRACTION * 100} % of the limit for readings that are a step old, and growth beside the engine`,
  };
}

function runningBound(memory: DeviceMemory, cores: number): { runningBound: number; runningBoundReason: string } {
  if (memory === 'discrete') {
    return { runningBound: RUNNING_BOUND_DISCRETE_GPU, runningBoundReason: 'a chosen bound for GPUs' };
  }
  if (memory === 'unified') {
    return { runningBound: RUNNING_BOUND_UNIFIED_GPU, runningBoundReason: 'a chosen bound for unified memory' };
  }
  const byCores = cores * RUNNING_BOUND_CPU_PER_CORE;
  return {
    runningBound: Math.min(Math.max(byCores, RUNNING_BOUND_CPU_MIN), RUNNING_BOUND_CPU_MAX),
    runningBoundReason: `a chosen bound for ${cores} CPU cores`,
  };
}

function standingMarginBytes(limitBytes: number, memory: DeviceMemory): number {
  const share = Math.min(Math.max(Math.ceil(limitBytes * MARGIN_FRACTION), MIN_MARGIN_BYTES), MAX_SHARE_MARGIN_BYTES);
  return share + (memory === 'discrete' ? DISCRETE_RUNTIME_EXTRA_BYTES : HOST_GROWTH_BYTES);
}
