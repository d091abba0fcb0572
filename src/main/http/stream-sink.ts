import type { OutgoingHttpHeaders } from 'node:http';
import type { PlimsollError } from '../../shared/errors.js';
import type { SampledToken } from '../pipeline-types.js';
import type { PieceTable } from '../streaming/piece-table.js';
import type { SseWriter } from '../streaming/sse-writer.js';
import type { Choice, ChoiceEnd } from './choice.js';
import { errorBody } from './error-reply.js';
import type { GenerationSink } from './generation.js';
import { addCompletionLogprob, characterCount, chatLogprob, emptyCompletionLogprobs } from './logprobs.js';
import { type ChunkWriter, DONE_EVENT } from './stream-format.js';
import { timingsOf, type Usage } from './usage.js';

export interface StreamOptions {
  shape: 'chat' | 'completion';
  /** −1: no logprobs; else alternatives a token. */
  logprobs: number;
  timingsPerToken: boolean;
  returnProgress: boolean;
  /** Text that goes before a choice's own, by choice; empty: none. */
  echoes: readonly string[];
  usage: (() => Usage) | null;
  /** Sent with the first event. */
  headers: OutgoingHttpHeaders;
  /** An error that came too late for a status of its own. */
  onLateError: (error: PlimsollError) => void;
}

/**
 * Streams a generation: one chunk a token, because clients measure the time per token by chunks. A token whose bytes are held back is
 * a chunk with empty text, and its text comes with a later one. Headers go out with the first event, so that an error before it can
 * still have its real status.
 */
export class StreamSink implements GenerationSink {
  private readonly isFirst: boolean[];
  private readonly offsets: number[];
  private readonly isPlain: boolean;
  private settle: { resolve: () => void; reject: (error: PlimsollError) => void } | null = null;
  /** Settles with the first event: rejects when that is an error. */
  readonly firstResult: Promise<void>;

  constructor(
    private readonly writer: SseWriter,
    private readonly chunks: ChunkWriter,
    private readonly table: PieceTable,
    private readonly options: StreamOptions,
  ) {
    this.isFirst = options.echoes.map(() => true);
    this.offsets = options.echoes.map(characterCount);
    this.isPlain = options.logprobs < 0 && !options.timingsPerToken;
    this.firstResult = new Promise((resolve, reject) => {
      this.settle = { resolve, reject };
    });
  }

  /** Sends the headers, and a comment so that they leave at once. */
  openEarly(): void {
    if (this.writer.isOpen) return;
    this.open();
    this.writer.comment('waiting');
  }

  progress(choice: Choice, computedTokens: number): void {
    if (!this.options.returnProgress) return;
    this.open();
    const progress = {
      total: choice.plan.promptTokens.length,
      cache: choice.cachedTokens,
      processed: computedTokens,
      time_ms: Math.round(performance.now() - (choice.startedAtMs || choice.submittedAtMs)),
    };
    this.writer.write(this.chunks.progress(choice.index, progress));
  }

  token(choice: Choice, text: string, sample: SampledToken): void {
    const { index } = choice;
    if (this.isFirst[index]) {
      this.open();
      this.writeText(choice, JSON.stringify(this.options.echoes[index] + text), sample);
      return;
    }
    // Nearly always the token's own text, whose JSON is known.
    const json = text === this.table.wholeText(sample.token) ? this.table.json(sample.token) : JSON.stringify(text);
    this.writeText(choice, json, sample);
  }

  choiceEnded(choice: Choice, rest: string, end: ChoiceEnd): void {
    this.open();
    const { index } = choice;
    // A choice without a token still has a role, and the echo.
    if (this.isFirst[index]) rest = this.options.echoes[index] + rest;
    if (rest !== '' || this.isFirst[index]) {
      this.writer.write(this.chunks.text(index, this.isFirst[index], JSON.stringify(rest)));
      this.isFirst[index] = false;
    }
    this.writer.write(this.chunks.finish(index, end, timingsOf([choice])));
  }

  ended(): void {
    const usage = this.options.usage === null ? '' : this.chunks.usage(this.options.usage());
    this.writer.end(usage + DONE_EVENT);
  }

  failed(error: PlimsollError): void {
    if (!this.writer.isOpen) {
      this.settle?.reject(error);
      return;
    }
    this.options.onLateError(error);
    this.writer.end(`data: ${JSON.stringify(errorBody(error))}\n\n`);
  }

  private open(): void {
    if (this.writer.isOpen) return;
    this.writer.open(this.options.headers);
    this.settle?.resolve();
  }

  private writeText(choice: Choice, json: string, sample: SampledToken): void {
    const { index } = choice;
    const isFirst = this.isFirst[index];
    this.isFirst[index] = false;
    if (this.isPlain) {
      this.writer.write(this.chunks.text(index, isFirst, json));
      return;
    }
    const timings = this.options.timingsPerToken ? timingsOf([choice]) : undefined;
    this.writer.write(this.chunks.detailedText(index, isFirst, json, this.logprobsOf(index, sample), timings));
  }

  private logprobsOf(index: number, sample: SampledToken): unknown {
    if (this.options.logprobs < 0) return null;
    if (this.options.shape === 'chat') return { content: [chatLogprob(this.table, sample)], refusal: null };
    const legacy = emptyCompletionLogprobs(this.options.logprobs);
    addCompletionLogprob(legacy, this.table, sample, this.offsets[index]);
    this.offsets[index] += characterCount(this.table.lenientText(sample.token));
    return legacy;
  }
}
