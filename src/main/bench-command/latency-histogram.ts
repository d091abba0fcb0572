/**
 * Durations in buckets of equal ratio: percentiles of any number of them in the same memory, with a relative error of at most half a bucket.
 */

/** Each bucket's upper edge over its lower one. Chosen: percentiles are right to 0.5 %, which no run repeats. */
const RATIO = 1.01;
const LOG_RATIO = Math.log(RATIO);
/** Upper edge of the first bucket, milliseconds: a timer's own noise. */
const FIRST_EDGE_MS = 0.001;
/** A day: longer than a request may take. */
const LAST_EDGE_MS = 86_400_000;
const BUCKETS = Math.ceil(Math.log(LAST_EDGE_MS / FIRST_EDGE_MS) / LOG_RATIO) + 1;

export class LatencyHistogram {
  private readonly counts = new Float64Array(BUCKETS);
  private total = 0;
  private sumMs = 0;
  private leastMs = Number.POSITIVE_INFINITY;
  private mostMs = 0;

  /** @throws RangeError for what is no duration. */
  record(ms: number): void {
    if (!(ms >= 0 && ms < Number.POSITIVE_INFINITY)) throw new RangeError(`${ms} ms is no duration`);
    this.counts[bucketOf(ms)]++;
    this.total++;
    this.sumMs += ms;
    this.leastMs = Math.min(this.leastMs, ms);
    this.mostMs = Math.max(this.mostMs, ms);
  }

  get count(): number {
    return this.total;
  }

  /** NaN of nothing, as all below. */
  get meanMs(): number {
    return this.total === 0 ? Number.NaN : this.sumMs / this.total;
  }

  get maxMs(): number {
    return this.total === 0 ? Number.NaN : this.mostMs;
  }

  /** The duration that `share` (0 to 1) of all do not exceed. */
  percentileMs(share: number): number {
    if (this.total === 0) return Number.NaN;
    const rank = Math.max(1, Math.ceil(share * this.total));
    let seen = 0;
    for (let bucket = 0; bucket < BUCKETS; bucket++) {
      seen += this.counts[bucket];
      if (seen >= rank) return this.middleOf(bucket);
    }
    throw new Error('a histogram counted fewer than it took');
  }

  /** The cumulative distribution: [duration in ms, share of all up to it], both rising; nothing for nothing. */
  cumulative(): Array<[ms: number, share: number]> {
    const points: Array<[number, number]> = [];
    let seen = 0;
    for (let bucket = 0; bucket < BUCKETS; bucket++) {
      if (this.counts[bucket] === 0) continue;
      seen += this.counts[bucket];
      points.push([this.middleOf(bucket), seen / this.total]);
    }
    return points;
  }

  /** In the middle of a bucket, and never outside of what was recorded. */
  private middleOf(bucket: number): number {
    const middleMs = FIRST_EDGE_MS * RATIO ** (bucket - 0.5);
    return Math.min(this.mostMs, Math.max(this.leastMs, middleMs));
  }
}

function bucketOf(ms: number): number {
  if (ms <= FIRST_EDGE_MS) return 0;
  return Math.min(BUCKETS - 1, Math.ceil(Math.log(ms / FIRST_EDGE_MS) / LOG_RATIO));
}
