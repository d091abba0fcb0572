import { streamCompletion } from './streaming-client.js';

/** A decoding stream that runs until it is stopped. */
export class EndlessStream {
  /** When each token came, performance.now(). */
  readonly tokenAtMs: number[] = [];
  private readonly abort = new AbortController();
  private readonly ended: Promise<void>;
  private failure: Error | null = null;
  private isOver = false;
  private wake: (() => void) | null = null;

  /** `outputTokensMax` must be more than it can make before it is stopped: an end before that is a failure. */
  constructor(url: string, prompt: number[], outputTokensMax: number) {
    const ask = {
      prompt,
      outputTokens: outputTokensMax,
      signal: this.abort.signal,
      onToken: (atMs: number) => {
        this.tokenAtMs.push(atMs);
        this.wake?.();
      },
    };
    this.ended = streamCompletion(url, ask).then(
      () => this.finish(new Error(`the stream ended by itself after ${outputTokensMax} tokens`)),
      (error: unknown) => this.finish(error as Error),
    );
  }

  /** @throws Error when the stream ends, or `signal` fires, before its first token. */
  async firstToken(signal: AbortSignal): Promise<void> {
    while (this.tokenAtMs.length === 0) {
      this.check();
      if (signal.aborted) throw new Error('no first token in time');
      await new Promise<void>((resolve) => {
        this.wake = resolve;
        signal.addEventListener('abort', () => resolve(), { once: true });
      });
    }
  }

  /** @throws Error when it is over, which nobody asked for. */
  check(): void {
    if (this.failure !== null) throw this.failure;
  }

  /** Tokens between two times. */
  tokensWithin(fromMs: number, toMs: number): number {
    return this.tokenAtMs.filter((at) => at >= fromMs && at < toMs).length;
  }

  /** Ends it, if it still runs; afterwards nothing of it is left. */
  async stop(): Promise<void> {
    this.isOver = true;
    this.abort.abort();
    await this.ended;
  }

  private finish(failure: Error): void {
    if (!this.isOver) this.failure = failure;
    this.wake?.();
  }
}
