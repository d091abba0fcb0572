import type { FastifyBaseLogger } from 'fastify';
import { PlimsollError } from '../../shared/errors.js';
import type { Metrics } from '../metrics.js';
import type { Pipeline, SampledToken } from '../pipeline-types.js';
import type { PieceTable } from '../streaming/piece-table.js';
import type { StopStrings } from '../streaming/stop-strings.js';
import { TextStream } from '../streaming/text-stream.js';
import { Choice, type ChoiceEnd, type ChoicePlan } from './choice.js';

/** Where the texts of a generation go: a stream of events, or one reply at the end. Called in order; after ended or failed, not again. */
export interface GenerationSink {
  progress(choice: Choice, computedTokens: number): void;
  /** `text` may be empty: the token's bytes are held back. */
  token(choice: Choice, text: string, sample: SampledToken): void;
  /** `rest` was held back and belongs to no further token. */
  choiceEnded(choice: Choice, rest: string, end: ChoiceEnd): void;
  ended(): void;
  failed(error: PlimsollError): void;
}

export interface GenerationContext {
  pipeline: Pipeline;
  table: PieceTable;
  metrics: Metrics;
  /** performance.now() when the request arrived. */
  arrivedAtMs: number;
  /** Common to all choices. */
  priority: number;
  cacheSalt: number;
  noPrefixCache: boolean;
  noDrafts: boolean;
  stops: StopStrings | null;
  requestId: string;
  log: FastifyBaseLogger;
}

/** All choices of one HTTP request: they start together, one's failure ends them all, and one disconnect cancels them all. */
export class Generation {
  readonly choices: Choice[];
  private isOver = false;
  private openCount: number;
  /** Resolves when it is over, however that came about. */
  readonly over: Promise<void>;
  private resolveOver!: () => void;

  constructor(
    private readonly context: GenerationContext,
    plans: readonly ChoicePlan[],
    private readonly sink: GenerationSink,
  ) {
    this.choices = plans.map(
      (plan, index) => new Choice(index, plan, new TextStream(context.table, context.stops), this),
    );
    this.openCount = plans.length;
    this.over = new Promise((resolve) => {
      this.resolveOver = resolve;
    });
  }

  /** @throws PlimsollError where the pipeline does not take a choice; then none runs. */
  submit(): void {
    try {
      for (const choice of this.choices) this.submitChoice(choice);
    } catch (error) {
      this.closeAll('error');
      throw error;
    }
  }

  /** The client is gone: nothing of it may go on. Harmless when it is over. */
  cancel(): void {
    if (!this.isOver) this.closeAll('cancelled');
  }

  /** Ends all choices with an error that the client sees. */
  fail(error: PlimsollError): void {
    if (this.isOver) return;
    // Before the choices are closed, whose promise of an end would overtake the error.
    this.sink.failed(error);
    this.closeAll('error');
  }

  /** A defect of ours while a token was handled. It ends this request; the pipeline and its other listeners must not notice. */
  broken(cause: unknown): void {
    this.context.log.error({ err: cause }, 'request failed');
    this.fail(new PlimsollError('internal', `Internal error. The request id is ${this.context.requestId}.`, { cause }));
  }

  choiceStarted(choice: Choice): void {
    const { metrics } = this.context;
    metrics.queueTime.add((choice.startedAtMs - choice.submittedAtMs) / 1000);
    metrics.promptTokens += choice.plan.promptTokens.length;
    metrics.cachedPromptTokens += choice.cachedTokens;
    metrics.promptLength.add(choice.plan.promptTokens.length);
  }

  choiceProgress(choice: Choice, computedTokens: number): void {
    this.sink.progress(choice, computedTokens);
  }

  choiceToken(choice: Choice, text: string, sample: SampledToken, isFirst: boolean, sinceMs: number): void {
    const { metrics } = this.context;
    metrics.generationTokens++;
    if (isFirst) this.measureFirst(choice);
    else metrics.interTokenLatency.add(sinceMs / 1000);
    this.sink.token(choice, text, sample);
  }

  /** A stop string is complete: the pipeline does not know, so it is told. */
  choiceStopped(choice: Choice): void {
    this.endChoice(choice, '', 'stop', true);
  }

  choiceEnded(choice: Choice, rest: string, end: ChoiceEnd): void {
    this.endChoice(choice, rest, end, false);
  }

  /** Cancelled by someone else than the client: only a pipeline that shuts down does that. */
  choiceLost(): void {
    this.fail(new PlimsollError('draining', 'The server is shutting down.'));
  }

  private submitChoice(choice: Choice): void {
    const { pipeline, priority, cacheSalt, noPrefixCache, noDrafts } = this.context;
    choice.submittedAtMs = performance.now();
    const request = { ...choice.plan, priority, cacheSalt, noPrefixCache, noDrafts };
    choice.id = pipeline.submit(request, choice);
    // The pipeline may have called back before it returned the id.
    if (choice.isOver) pipeline.cancel(choice.id);
  }

  private endChoice(choice: Choice, rest: string, end: ChoiceEnd, isStillRunning: boolean): void {
    if (choice.isOver || this.isOver) return;
    choice.isOver = true;
    if (isStillRunning && choice.id !== 0) this.context.pipeline.cancel(choice.id);
    this.measureEnd(choice, end);
    this.sink.choiceEnded(choice, rest, end);
    if (--this.openCount > 0) return;
    this.sink.ended();
    this.finish();
  }

  private closeAll(reason: 'cancelled' | 'error'): void {
    for (const choice of this.choices) {
      if (choice.isOver) continue;
      choice.isOver = true;
      if (choice.id !== 0) this.context.pipeline.cancel(choice.id);
      this.measureEnd(choice, reason);
    }
    this.finish();
  }

  private finish(): void {
    this.isOver = true;
    this.resolveOver();
  }

  private measureFirst(choice: Choice): void {
    const { metrics, arrivedAtMs } = this.context;
    metrics.timeToFirstToken.add((choice.firstTokenAtMs - arrivedAtMs) / 1000);
    const startedAtMs = choice.startedAtMs || choice.submittedAtMs;
    metrics.prefillTime.add((choice.firstTokenAtMs - startedAtMs) / 1000);
  }

  private measureEnd(choice: Choice, reason: ChoiceEnd | 'cancelled' | 'error'): void {
    const { metrics, arrivedAtMs } = this.context;
    metrics.countEnd(reason);
    metrics.endToEnd.add((performance.now() - arrivedAtMs) / 1000);
    metrics.generationLength.add(choice.completionTokens);
    if (choice.completionTokens > 0) metrics.decodeTime.add((choice.lastTokenAtMs - choice.firstTokenAtMs) / 1000);
  }
}
