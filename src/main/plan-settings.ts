/** A plan's question, out of the settings: as serve asks it. */
import os from 'node:os';
import type { Config } from '../shared/config.js';
import type { PlanFlags } from '../shared/memory/plan-types.js';

export function planFlags(config: Config): PlanFlags {
  return {
    contextTokens: config.contextTokens,
    runningCap: config.maxRunningRequests,
    chunkTokens: config.chunkTokens,
    memFraction: config.memoryFraction,
    maxTotalTokens: config.maxTotalTokens,
    layout: config.kvLayout,
    keyType: config.kvType,
    valueType: config.kvType,
    flashAttention: config.flashAttention,
    prefixCache: config.prefixCache,
  };
}

export function planThreads(config: Config): number {
  return config.threads === 'auto' ? os.availableParallelism() : config.threads;
}
