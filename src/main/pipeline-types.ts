/** The pipeline as HTTP and the embedding API see it. Implemented by pipeline.ts; tests may use it over the fake engine. */

import type { ModelInfo } from '../shared/engine.js';
import type { PlimsollError } from '../shared/errors.js';
import type { DeviceGauge, SchedulerGauge } from '../shared/gauges-layout.js';
import type { SamplingParams } from '../shared/sampling.js';
import type { LoadLineView } from './load-line-view.js';

export interface TokenAlternative {
  token: number;
  logprob: number;
}

export interface SampledToken {
  token: number;
  /** NaN unless logprobs were asked for. */
  logprob: number;
  /** Best first; empty unless asked for. */
  top: TokenAlternative[];
}

export type FinishReason = 'stop' | 'length' | 'cancelled';

export interface GenerationRequest {
  promptTokens: Int32Array;
  /** Leading tokens of the prompt, ascending, at which other prompts may branch off it: the ends of its messages, as far as they matter. */
  boundaries?: readonly number[];
  sampling: SamplingParams;
  /** Lower runs first; 0 is the default. */
  priority?: number;
  /** Prefixes are shared only within a salt; 0 is the default salt. */
  cacheSalt?: number;
  noPrefixCache?: boolean;
  /** No speculation: every token is computed on its own. */
  noDrafts?: boolean;
  /** Longest wait for memory or a slot, ms. */
  maxWaitMs?: number;
}

/** Called on the main thread, in order: started, then tokens, then exactly one of finished or failed. */
export interface GenerationListener {
  /** The request left the queue. */
  started?(cachedTokens: number): void;
  progress?(computedTokens: number): void;
  /** A token of the text; an end-of-generation token is not reported. */
  token(sample: SampledToken): void;
  finished(reason: FinishReason): void;
  failed(error: PlimsollError): void;
}

/**
 * What of a model is in memory. *ready*: weights and a context. *released*: the weights alone, until the next request (--idle-release).
 * *unloaded*: nothing, until the next request (--idle-unload), which is *loading* it.
 */
export type Residence = 'ready' | 'released' | 'unloaded' | 'loading';

export interface Pipeline {
  readonly model: ModelInfo;
  /** Prompt and output of one request, tokens at most. */
  readonly contextTokens: number;
  /** @throws PlimsollError when the request cannot be taken at all (too long, queue full, draining). Returns a request id. */
  submit(request: GenerationRequest, listener: GenerationListener): number;
  /** Harmless for an id that is over. The listener gets `finished('cancelled')`. */
  cancel(id: number): void;
  readonly residence: Residence;
  /** Requests submitted and not over. */
  readonly activeCount: number;
  /** That many at most: more get queue_full. */
  readonly activeMax: number;
  deviceGauges(): Readonly<Record<DeviceGauge, number>>;
  schedulerGauges(): Readonly<Record<SchedulerGauge, number>>;
  /** The plan, the probe, the ladder and the ledger, as they stand now. */
  loadLine(): LoadLineView;
  /** Every token's bytes, for the detokenizer. Control tokens have none. */
  readonly pieces: { offsets: Int32Array; bytes: Uint8Array };
  /** Refuses new work, finishes the rest (at most `timeoutMs`), stops the workers. */
  close(timeoutMs: number): Promise<void>;
  /** Called once if the pipeline dies. */
  onFatal(handler: (error: PlimsollError) => void): void;
}
