import { FINISH_CODE } from '../token-wire.js';
import { type Spread, spreadOf } from './result.js';
import type { WorkRequest } from './workload.js';

/** A request from its arrival to its end. */
export interface Followed {
  work: WorkRequest;
  arrivedAtMs: number;
  answer: number[];
}

const NAMES = new Map<number, string>(Object.entries(FINISH_CODE).map(([name, code]) => [code, name]));

/** Follows requests as the main thread sees them: by notices and tokens. */
export class Recorder {
  readonly ends: Record<string, number> = {};
  answerTokens = 0;
  promptTokens = 0;
  private readonly open = new Map<number, Followed>();
  private readonly waitsMs: number[] = [];
  private readonly firstTokensMs: number[] = [];
  private cachedTokens = 0;
  private repeated = { prompt: 0, cached: 0 };
  /** The same since the last moment. */
  private lately = { prompt: 0, cached: 0 };

  get openCount(): number {
    return this.open.size;
  }

  get waits(): Spread {
    return spreadOf(this.waitsMs);
  }

  get firstTokens(): Spread {
    return spreadOf(this.firstTokensMs);
  }

  get hitRate(): number {
    return this.promptTokens === 0 ? 0 : this.cachedTokens / this.promptTokens;
  }

  get repeatHitRate(): number {
    return this.repeated.prompt === 0 ? 0 : this.repeated.cached / this.repeated.prompt;
  }

  takeHitRate(): number {
    const { prompt, cached } = this.lately;
    this.lately = { prompt: 0, cached: 0 };
    return prompt === 0 ? Number.NaN : cached / prompt;
  }

  /** One that is refused at the door is over at once. */
  refuse(reason: string): void {
    this.ends[reason] = (this.ends[reason] ?? 0) + 1;
  }

  arrive(id: number, work: WorkRequest, nowMs: number): void {
    this.open.set(id, { work, arrivedAtMs: nowMs, answer: [] });
  }

  answerTokensOf(id: number): number {
    return this.get(id).work.answerTokens;
  }

  started(id: number, cachedTokens: number, promptTokens: number, nowMs: number): void {
    const { work, arrivedAtMs } = this.get(id);
    this.waitsMs.push(nowMs - arrivedAtMs);
    this.promptTokens += promptTokens;
    this.cachedTokens += cachedTokens;
    if (!work.isRepeat) return;
    for (const sums of [this.repeated, this.lately]) {
      sums.prompt += promptTokens;
      sums.cached += cachedTokens;
    }
  }

  token(id: number, token: number, nowMs: number): void {
    const request = this.get(id);
    if (request.answer.length === 0) this.firstTokensMs.push(nowMs - request.arrivedAtMs);
    request.answer.push(token);
    this.answerTokens++;
  }

  /** Ended by its last token. */
  done(id: number): Followed {
    const request = this.get(id);
    const { answerTokens } = request.work;
    if (request.answer.length !== answerTokens) {
      throw new Error(`request ${id} ended after ${request.answer.length} of ${answerTokens} tokens`);
    }
    return this.close(id, 'done');
  }

  /** Ended by a notice. */
  finished(id: number, code: number): Followed {
    return this.close(id, NAMES.get(code) ?? `code ${code}`);
  }

  private close(id: number, end: string): Followed {
    const request = this.get(id);
    this.open.delete(id);
    this.ends[end] = (this.ends[end] ?? 0) + 1;
    return request;
  }

  private get(id: number): Followed {
    const request = this.open.get(id);
    if (request === undefined) throw new Error(`request ${id} is not open`);
    return request;
  }
}
