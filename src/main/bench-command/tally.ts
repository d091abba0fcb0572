/** Counts what happens to the requests of a run. Its memory does not grow with their number. Pure: it is told the time. */
import type { GoodputLimits } from './bench-options.js';
import type { ChatAnswer } from './chat-client.js';
import type { ChatFailure } from './chat-failure.js';
import { isGood } from './goodput.js';
import { LatencyHistogram } from './latency-histogram.js';

/** Kinds of failures that are told apart; a server that makes up codes must not fill the table. Chosen. */
const FAILURE_KINDS_MAX = 20;
const OTHER_FAILURES = 'other';

export interface FailureCount {
  count: number;
  /** Of the first of them. */
  message: string;
}

export class Tally {
  readonly firstToken = new LatencyHistogram();
  /** The same, of the first request of each chat and of those after it. */
  readonly firstTokenByTurn = { first: new LatencyHistogram(), later: new LatencyHistogram() };
  readonly interToken = new LatencyHistogram();
  readonly endToEnd = new LatencyHistogram();
  readonly failures = new Map<string, FailureCount>();
  sentCount = 0;
  answeredCount = 0;
  failedCount = 0;
  /** Arrivals beyond the connections that a client may hold, and turns of chats that failed before. */
  notSentCount = 0;
  goodCount = 0;
  /** Answers whose tokens the server counted; of the others the chunks are counted. */
  countedAnswers = 0;
  chunkCount = 0;
  promptTokens = 0;
  cachedTokens = 0;
  outputTokens = 0;
  private beginMs = 0;
  private endMs: number | null = null;

  /** `limits` null: no goodput is asked for. */
  constructor(private readonly limits: GoodputLimits | null) {}

  begin(nowMs: number): void {
    this.beginMs = nowMs;
  }

  end(nowMs: number): void {
    this.endMs = nowMs;
  }

  elapsedMs(nowMs: number): number {
    return (this.endMs ?? nowMs) - this.beginMs;
  }

  get unfinishedCount(): number {
    return this.sentCount - this.answeredCount - this.failedCount;
  }

  sent(): void {
    this.sentCount++;
  }

  notSent(count: number): void {
    this.notSentCount += count;
  }

  answered(answer: ChatAnswer, turn: number): void {
    const { chunkMs, endMs, usage } = answer;
    this.answeredCount++;
    this.endToEnd.record(endMs);
    if (chunkMs.length > 0) {
      this.firstToken.record(chunkMs[0]);
      this.firstTokenByTurn[turn === 0 ? 'first' : 'later'].record(chunkMs[0]);
    }
    for (let i = 1; i < chunkMs.length; i++) this.interToken.record(chunkMs[i] - chunkMs[i - 1]);
    this.chunkCount += chunkMs.length;
    this.outputTokens += usage?.outputTokens ?? chunkMs.length;
    if (usage !== null) {
      this.countedAnswers++;
      this.promptTokens += usage.promptTokens;
      this.cachedTokens += usage.cachedTokens;
    }
    if (this.limits !== null && isGood(answer, this.limits)) this.goodCount++;
  }

  failed({ kind, message }: ChatFailure): void {
    this.failedCount++;
    const isKnown = this.failures.has(kind) || this.failures.size < FAILURE_KINDS_MAX;
    const key = isKnown ? kind : OTHER_FAILURES;
    const entry = this.failures.get(key);
    if (entry) entry.count++;
    else this.failures.set(key, { count: 1, message });
  }
}
