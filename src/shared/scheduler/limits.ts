import type { KvLayout } from '../engine.js';

/** What the plan allows. Fixed for one context; a new context brings new ones. */
export interface SchedulerLimits {
  layout: KvLayout;
  /** Sequences of the context. */
  sequences: number;
  /** Sequences of the context that has most of them. */
  sequencesMax: number;
  /** Contexts differ in their number of sequences: longer streams are had for fewer ones, and take no more memory (stream-ladder.ts). */
  hasShapes: boolean;
  /** Requests that run at once: at most `sequences`; the rest hold cached prefixes. */
  runningCap: number;
  /** Cells of the pool (shared) or of each stream (private). */
  cells: number;
  /** Cells of the largest context that this plan may grow to. */
  cellsMax: number;
  /** Keys and values of one cell, bytes: what a larger pool takes. */
  cellBytes: number;
  /** What the saved state of a sequence takes beside its cells, bytes: recurrent state, windows. 0 where everything is in cells. */
  stateBytes: number;
  /** Prompt and output of one request, tokens at most. */
  contextTokens: number;
  /** Prompt tokens of one step at most. */
  chunkTokens: number;
  /** Tokens of one step at most, decodes included. */
  batchTokens: number;
  /** The end of a cached sequence can be removed (false: recurrent, hybrid, sliding window). */
  canTrim: boolean;
  prefixCache: boolean;
  /** A request that runs alone may be computed ahead of its samples (draft-policy.ts). */
  speculates: boolean;
  /** Waiting requests at most. */
  waitingMax: number;
  /** Words of the starts in one batch record at most; one start of the largest kind fits. */
  startWords: number;
  /** Tokens that the device's attention takes at once (attention-tiles.ts); 0: any number is as good. */
  tileTokens: number;
  /** Weights that a step reads where it computes prompts and decodes one after the other, bytes (answers-first.ts); 0: it computes them together. */
  weightsBytes: number;
  /** Inter-token latency to keep for running requests while prompts are computed, microseconds. */
  targetItlMicros: number;
}

/** @throws RangeError for limits that contradict each other. */
export function assertLimits(limits: SchedulerLimits): void {
  const ok =
    limits.runningCap >= 1 &&
    limits.runningCap <= limits.sequences &&
    limits.sequences <= limits.sequencesMax &&
    limits.chunkTokens >= 1 &&
    limits.batchTokens >= limits.runningCap &&
    limits.contextTokens >= 2 &&
    limits.cells <= limits.cellsMax &&
    limits.contextTokens <= limits.cellsMax &&
    limits.waitingMax >= 1;
  if (!ok) throw new RangeError(`scheduler limits contradict each other: ${JSON.stringify(limits)}`);
}
