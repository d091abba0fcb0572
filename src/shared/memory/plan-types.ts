import type { ContextSpec, FlashAttention, KvLayout, KvType, Readings } from '../engine.js';
import type { ContextCost } from './cost-model.js';
import type { DeviceMemory, Headroom, Limit } from './headroom.js';

/** What the user asked for. A number is honoured or refused, never changed. */
export interface PlanFlags {
  /** Prompt and output tokens of one request. */
  contextTokens: number | 'auto';
  runningCap: number | 'auto';
  /** Prompt tokens of one step. */
  chunkTokens: number | 'auto';
  /** Share of the device limit that weights and KV may take, 0 to 1. `auto`: what the cost model's rules say. */
  memFraction: number | 'auto';
  /** Tokens of KV in the whole context: exactly (shared), at most (private: whole spans). */
  maxTotalTokens: number | 'auto';
  layout: KvLayout | 'auto';
  keyType: KvType;
  valueType: KvType;
  flashAttention: FlashAttention;
  /** Finished requests leave their prefix in the cache. */
  prefixCache: boolean;
}

export interface PlanMachine {
  memory: DeviceMemory;
  readings: Readings;
  /** Weights that the readings still count as free: all of them before loading; after it, those mapped from a file that the kernel
   *  reports as reclaimable cache. */
  uncountedWeightsBytes: number;
  threads: number;
  promptThreads: number;
}

export interface PlanModel {
  /** 0: the model does not say. */
  trainContextTokens: number;
  weightsBytes: number;
  /** All of a sequence is in its cells: no recurrent state, no sliding window. Left out: it is. */
  canTrim?: boolean;
}

export type CapName = 'layout' | 'context' | 'running' | 'pool' | 'chunk';

/** Why a cap is what it is. */
export interface CapReason {
  cap: CapName;
  value: number | KvLayout;
  /** What would have to change for another value: a flag, the model, a reading, or a bound that was chosen. */
  binds: 'flag' | 'model' | 'device' | 'system' | 'cgroup' | 'fraction' | 'chosen';
  sentence: string;
}

/** The numbers a plan was made of, in the order they were worked out. null: memory sets no such limit. */
export interface PlanArithmetic {
  headroom: Headroom;
  limit: Limit;
  /** Kept free of the limit, with what is above a lowered line. */
  marginBytes: number;
  /** Of the margin: what is above a lowered line; 0: the line is the limit. */
  aboveLineBytes: number;
  /** Headroom less margin and uncounted weights: what the context may take. */
  budgetBytes: number;
  /** fraction × limit − use: what KV may take of it. */
  staticBytes: number;
  bytesPerToken: number;
  /** One request's own cache, where it has one. */
  cacheBytes: number | null;
  runningCap: number | null;
  poolTokens: number;
  residentKvBytes: number;
  /** What is left for a prompt step. */
  activationHeadroomBytes: number;
  /** Largest chunk by memory alone. */
  rawChunkTokens: number | null;
  chunkTokens: number | null;
}

export interface LedgerLine {
  owner: string;
  bytes: number;
}

export interface Plan {
  refused: false;
  layout: KvLayout;
  /** The shared pool's memory is made into private streams, whose number and length follow the requests (stream-ladder.ts). */
  asStreams: boolean;
  runningCap: number;
  /** Prompt and output of one request. */
  contextTokens: number;
  /** KV tokens of the whole context. */
  poolTokens: number;
  /** Cells: of the pool (shared) or of each stream (private). */
  cells: number;
  /** Prompt tokens of one step at most. */
  chunkTokens: number;
  spec: ContextSpec;
  cost: ContextCost;
  weightsBytes: number;
  /** Bytes by owner; together they are the limit. */
  ledger: LedgerLine[];
  reasons: CapReason[];
  arithmetic: PlanArithmetic;
  costSource: 'exact' | 'analytic';
}

/** A change of one flag that makes a plan possible; found by planning with it. */
export interface Knob {
  flag: string;
  value: string;
  sentence: string;
}

export interface Refusal {
  refused: true;
  /** KV for one full request does not fit. */
  poolShort: boolean;
  /** A prompt step of useful size does not fit beside it. */
  chunkShort: boolean;
  /** What binds: a reading's source, the fraction, or two flags that contradict each other. */
  binds: 'device' | 'system' | 'cgroup' | 'fraction' | 'flags';
  sentence: string;
  ledger: LedgerLine[];
  /** Bytes that are missing for the smallest plan of these flags. */
  shortBytes: number;
  /** The limit that would do, with everything else as it is; null where more memory does not help. */
  sufficientLimitBytes: number | null;
  /** Largest context that would fit with the other flags as they are; 0: none. */
  largestContextTokens: number;
  /** --mem-fraction-static that would do, if one does. */
  fractionHint: number | null;
  knobs: Knob[];
  arithmetic: PlanArithmetic;
}

export interface PlanInput {
  model: PlanModel;
  machine: PlanMachine;
  flags: PlanFlags;
  /** Where the line is, as a share of the limit: below 1 after deaths of memory (lowered-line.ts). Default 1. */
  lineFraction?: number;
}
