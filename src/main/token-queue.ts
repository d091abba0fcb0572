import type { PlimsollError } from '../shared/errors.js';
import type { FinishReason, GenerationListener, SampledToken } from './pipeline-types.js';

/** A request's tokens as an async iterable: what the listener gets is kept until it is read. Bounded by the request's maxTokens. */
export class TokenQueue implements GenerationListener, AsyncIterable<SampledToken> {
  /** Valid once the iteration is over. */
  reason: FinishReason = 'cancelled';
  private readonly tokens: SampledToken[] = [];
  private isOver = false;
  private error: PlimsollError | null = null;
  private wake: (() => void) | null = null;

  token(sample: SampledToken): void {
    this.tokens.push(sample);
    this.wake?.();
  }

  finished(reason: FinishReason): void {
    this.reason = reason;
    this.isOver = true;
    this.wake?.();
  }

  failed(error: PlimsollError): void {
    this.error = error;
    this.isOver = true;
    this.wake?.();
  }

  /** @throws PlimsollError when the request failed. */
  async *[Symbol.asyncIterator](): AsyncIterator<SampledToken> {
    for (;;) {
      yield* this.tokens.splice(0);
      if (this.tokens.length > 0) continue;
      if (this.error) throw this.error;
      if (this.isOver) return;
      await new Promise<void>((resolve) => {
        this.wake = resolve;
      });
      this.wake = null;
    }
  }
}
