import type { ContextSpec } from '../engine.js';
import type { DeviceMemory } from './headroom.js';

/** What a context takes, bytes. */
export interface ContextCost {
  /** Keys, values and recurrent state, in the memory that the device computes in. */
  kvBytes: number;
  /** Compute buffers and outputs there. */
  computeBytes: number;
  /** What lies in RAM beside a GPU: host buffers, and layers that stayed on the CPU. 0 where the CPU is the device. */
  hostBytes: number;
}

/**
 * How memory is taken, which decides what the planner must leave free. *standing*: all of it when the context is made, to the
 * byte (llama.cpp). *growing*: caches and transients come and go while requests run (an allocator such as MLX's).
 */
export interface AllocationRules {
  allocation: 'standing' | 'growing';
  /** Share of what is left after the caches that one prompt step may take. */
  prefillSafetyFraction: number;
  spareCaches: number;
  /** Pool tokens at most: context × running × this. */
  poolSlack: number;
  /** Chunks to choose from, largest first; empty: any number of tokens. */
  chunkLadder: readonly number[];
  /** The chunk that context and pool give way to; smaller ones only where there would be no plan at all. */
  comfortableChunkTokens: number;
  /** The chunk that half of an automatic pool gives way to: below it, memory buys more speed as chunk than as pool. */
  goodChunkTokens: number;
  /** A plan with a smaller chunk is refused. */
  minChunkTokens: number;
  /** Automatic running cap at most, whatever the memory. */
  runningBound: number;
  runningBoundReason: string;
  /** Share of the limit that weights and KV may take when no flag says. */
  defaultMemFraction: number;
  /** Kept free of `limitBytes`. */
  marginBytes(limitBytes: number, memory: DeviceMemory): number;
  marginReason: string;
}

/** What a context of `spec` takes. One planner uses any of them. */
export interface CostModel {
  readonly source: 'exact' | 'analytic';
  readonly rules: AllocationRules;
  cost(spec: ContextSpec): ContextCost;
  /** Tokens that one request's private cache is made for, where that is more than its padded context. */
  spanTokens?(contextTokens: number): number;
}

/** Bytes that `cost` takes of the headroom of `memory`: beside a discrete GPU, RAM has a headroom of its own. */
export function bytesOf(cost: ContextCost, memory: DeviceMemory): number {
  return cost.kvBytes + cost.computeBytes + (memory === 'discrete' ? 0 : cost.hostBytes);
}
