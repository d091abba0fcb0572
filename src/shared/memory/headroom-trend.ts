/** Readings closer than this say nothing of a rate. Chosen: a little less than the interval at which they are taken. */
const SAMPLE_MS = 80;
/** Rates that the median is taken of. Chosen: with readings each 100 ms, a heap that grows at once moves one of them, a process that fills
 *  memory moves all. */
const RATES = 7;
/** Fewer say nothing. Chosen. */
const RATES_LEAST = 4;
/** After a silence this long the old rates are of another time. Chosen. */
const SILENCE_MS = 1_000;

/** How fast headroom falls, as the median of its latest rates. Pure: time comes in. */
export class HeadroomTrend {
  private readonly ratesPerMs: number[] = [];
  private lastMs = Number.NEGATIVE_INFINITY;
  private lastBytes = 0;

  note(nowMs: number, headroomBytes: number): void {
    const elapsedMs = nowMs - this.lastMs;
    if (elapsedMs < SAMPLE_MS) return;
    if (elapsedMs > SILENCE_MS) this.ratesPerMs.length = 0;
    else this.ratesPerMs.push((this.lastBytes - headroomBytes) / elapsedMs);
    if (this.ratesPerMs.length > RATES) this.ratesPerMs.shift();
    this.lastMs = nowMs;
    this.lastBytes = headroomBytes;
  }

  /** Bytes by which headroom will have fallen `ms` from now if it goes on like this; never negative. */
  fallBytes(ms: number): number {
    if (this.ratesPerMs.length < RATES_LEAST) return 0;
    const sorted = this.ratesPerMs.toSorted((a, b) => a - b);
    return Math.max(0, sorted[sorted.length >> 1]) * ms;
  }

  /** Memory was taken or given back by ourselves: what was seen before says nothing of the others. */
  reset(): void {
    this.ratesPerMs.length = 0;
    this.lastMs = Number.NEGATIVE_INFINITY;
  }
}
