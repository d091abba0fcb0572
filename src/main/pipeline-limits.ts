import type { Config } from '../shared/config.js';
import { cellBytesOf } from '../shared/memory/context-ladder.js';
import { AUTO_CHECKPOINT_BYTES, AUTO_HOST_TIER_BYTES } from '../shared/memory/host-tier-budget.js';
import type { RungLimits } from '../shared/memory/rung-policy.js';
import { startWordsMax } from '../shared/pipeline-buffers.js';
import { tileTokensOf } from '../shared/scheduler/attention-tiles.js';
import type { SchedulerLimits } from '../shared/scheduler/limits.js';
import type { ForwardReady } from '../workers/worker-messages.js';

/** What the scheduler keeps to, from the settings and the context that stands. */
export function limitsOf(config: Config, ready: ForwardReady): SchedulerLimits {
  const { plan, model, context, ladder, probe, stateSize } = ready;
  const sequencesMax = Math.max(...ladder.map(({ spec }) => spec.sequences));
  const tileTokens = tileTokensOf(ready.memory, plan.spec);
  return {
    layout: ladder[0].spec.layout,
    sequences: context.sequences,
    sequencesMax,
    hasShapes: ladder.some(({ spec }) => spec.sequences !== sequencesMax),
    runningCap: Math.min(plan.runningCap, context.sequences),
    cells: context.cells,
    cellsMax: Math.max(context.cells, ladder[ladder.length - 1].cells),
    ...stateSize,
    contextTokens: plan.contextTokens,
    chunkTokens: probe.chunkTokens || plan.chunkTokens,
    batchTokens: context.batchTokens,
    canTrim: model.canTrim,
    prefixCache: config.prefixCache,
    // Without flash attention the engine's kernels for several rows round far enough from those for one row to change greedy answers.
    speculates: config.speculative === 'ngram' && config.flashAttention !== 'off',
    // Main bounds the queue; the scheduler's bound is the second of the pair, with room for preempted requests.
    waitingMax: config.maxQueuedRequests + 2 * plan.runningCap,
    startWords: startWordsMax(plan.contextTokens),
    tileTokens,
    weightsBytes: tileTokens > 0 ? model.sizeBytes : 0,
    targetItlMicros: config.targetItlMs * 1000,
  };
}

/** The contexts that it may move between. */
export function ladderLimits({ plan, ladder, memory }: ForwardReady, idleReleaseMs: number): RungLimits {
  return {
    rungs: ladder.map(({ spec, cells, bytes }) => ({ sequences: spec.sequences, cells, bytes })),
    cellBytes: cellBytesOf(plan),
    marginBytes: plan.arithmetic.marginBytes,
    idleReleaseMs,
    isSharedMemory: memory !== 'discrete',
  };
}

/**
 * What saved prefixes may take in host memory at most: evicted ones, or checkpoints where ends cannot be removed. To the disk and from there
 * everything passes through host memory.
 */
export function hostPrefixBytesMax(config: Config, { model }: ForwardReady, hasDisk: boolean): number {
  const { prefixCache, hostPrefixCacheBytes, checkpointCacheBytes } = config;
  if (!prefixCache) return 0;
  if (!model.canTrim) return checkpointCacheBytes === 'auto' ? AUTO_CHECKPOINT_BYTES : checkpointCacheBytes;
  const isAuto = hostPrefixCacheBytes === 'auto' || (hasDisk && hostPrefixCacheBytes === 0);
  return isAuto ? AUTO_HOST_TIER_BYTES : hostPrefixCacheBytes;
}
