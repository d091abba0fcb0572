import type { Readings } from '../engine.js';

interface Sample {
  atMs: number;
  readings: Readings;
}

/** Readings as the scheduler sees them: sampled now and then, and known only `lagMs` later. */
export class LaggedReadings {
  private readonly samples: Sample[] = [];

  constructor(private readonly lagMs: number) {}

  /** Age of the newest sample; Infinity when there is none. */
  ageMs(nowMs: number): number {
    const newest = this.samples.at(-1);
    return newest ? nowMs - newest.atMs : Number.POSITIVE_INFINITY;
  }

  take(readings: Readings, nowMs: number): void {
    this.samples.push({ atMs: nowMs, readings });
    // Only the newest one that is old enough, and those after it, can ever be seen.
    while (this.samples.length > 1 && this.samples[1].atMs <= nowMs - this.lagMs) this.samples.shift();
  }

  seen(nowMs: number): Readings {
    if (this.samples.length === 0) throw new Error('no reading was taken yet');
    let seen = this.samples[0];
    for (const sample of this.samples) if (sample.atMs <= nowMs - this.lagMs) seen = sample;
    return seen.readings;
  }
}
