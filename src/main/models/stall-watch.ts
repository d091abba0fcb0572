/**
 * Aborts a transfer that stands still or trickles: in every window at least a floor of bytes must come. A time limit on single
 * reads would let a server hold the download for ever with one byte now and then.
 */
export class StallWatch {
  private readonly controller = new AbortController();
  private readonly timer: NodeJS.Timeout;
  private bytesInWindow = 0;

  constructor(
    private readonly windowMs: number,
    private readonly floorBytes: number,
  ) {
    this.timer = setInterval(() => {
      if (this.bytesInWindow < this.floorBytes) this.controller.abort();
      this.bytesInWindow = 0;
    }, this.windowMs);
  }

  get signal(): AbortSignal {
    return this.controller.signal;
  }

  get hasStalled(): boolean {
    return this.controller.signal.aborted;
  }

  received(bytes: number): void {
    this.bytesInWindow += bytes;
  }

  stop(): void {
    clearInterval(this.timer);
  }
}
