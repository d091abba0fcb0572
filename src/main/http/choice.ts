import type { PlimsollError } from '../../shared/errors.js';
import type { SamplingParams } from '../../shared/sampling.js';
import type { FinishReason, GenerationListener, SampledToken } from '../pipeline-types.js';
import type { TextStream } from '../streaming/text-stream.js';
import type { Generation } from './generation.js';

/** Why a choice ended, in OpenAI's words. */
export type ChoiceEnd = 'stop' | 'length';

export interface ChoicePlan {
  promptTokens: Int32Array;
  /** As in GenerationRequest. */
  boundaries: readonly number[];
  sampling: SamplingParams;
}

/** One of the texts that a request asked for: the pipeline's listener, with the numbers that usage, timings and metrics need. */
export class Choice implements GenerationListener {
  /** The pipeline's id; 0 until submitted. */
  id = 0;
  isOver = false;
  cachedTokens = 0;
  completionTokens = 0;
  submittedAtMs = 0;
  /** 0 until it happens. All times are performance.now(). */
  startedAtMs = 0;
  firstTokenAtMs = 0;
  lastTokenAtMs = 0;

  constructor(
    readonly index: number,
    readonly plan: ChoicePlan,
    private readonly text: TextStream,
    private readonly generation: Generation,
  ) {}

  started(cachedTokens: number): void {
    if (this.isOver) return;
    // A preempted request starts again; what it found in the cache the first time is what its client saved.
    if (this.startedAtMs !== 0) return;
    this.startedAtMs = performance.now();
    this.cachedTokens = cachedTokens;
    this.generation.choiceStarted(this);
  }

  progress(computedTokens: number): void {
    if (!this.isOver) this.generation.choiceProgress(this, computedTokens);
  }

  token(sample: SampledToken): void {
    if (this.isOver) return;
    const now = performance.now();
    const isFirst = this.completionTokens++ === 0;
    const sinceMs = now - this.lastTokenAtMs;
    this.lastTokenAtMs = now;
    if (isFirst) this.firstTokenAtMs = now;
    try {
      const delta = this.text.push(sample.token);
      this.generation.choiceToken(this, delta, sample, isFirst, sinceMs);
      if (this.text.stopped) this.generation.choiceStopped(this);
    } catch (error) {
      this.generation.broken(error);
    }
  }

  finished(reason: FinishReason): void {
    if (this.isOver) return;
    if (reason === 'cancelled') this.generation.choiceLost();
    else this.generation.choiceEnded(this, this.text.end(), reason);
  }

  failed(error: PlimsollError): void {
    if (!this.isOver) this.generation.fail(error);
  }
}
