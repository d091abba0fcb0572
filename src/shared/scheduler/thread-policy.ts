/**
 * How many threads the engine uses on a CPU. Its threads meet at a spinning barrier many times a step, so one that waits for a core holds
 * up all others: beside one busy process two threads on two cores run at a quarter of their speed, one thread at 60 % (engine-notes.md).
 *
 * Down when the threads do not get the CPU time they ask for, up when cores lie idle. Pure: times come in.
 */
export interface ThreadLimits {
  max: number;
}

/** Share of its threads' time that a step must get. Measured: alone, steps get 0.9 to 1.0; beside one busy process on two cores, 0.6. */
const ENOUGH_SHARE = 0.82;
/** Steps shorter than this say nothing: CPU time is counted in coarse ticks. Chosen. */
const LEAST_STEP_MICROS = 2_000;
/** Weight of the newest step. Chosen: about five steps decide. */
const NEWEST_WEIGHT = 0.3;
/** Idle cores that make room for one thread more. Chosen: not a whole one, because our own JavaScript takes its part. */
const ROOM_CORES = 0.7;
/** Between two changes, up or down. Chosen: a change costs nothing, but a swing costs speed. */
const SETTLE_DOWN_MS = 100;
const SETTLE_UP_MS = 1_000;

export class ThreadPolicy {
  threads: number;
  private share = 1;
  private changedAtMs = Number.NEGATIVE_INFINITY;

  constructor(private readonly limits: ThreadLimits) {
    this.threads = limits.max;
  }

  /** A step ran with `threads` for `wallMicros`; the process used `cpuMicros` meanwhile. */
  stepRan(threads: number, wallMicros: number, cpuMicros: number, nowMs: number): void {
    if (threads !== this.threads || wallMicros < LEAST_STEP_MICROS) return;
    const share = Math.min(1, cpuMicros / (wallMicros * threads));
    this.share += (share - this.share) * NEWEST_WEIGHT;
    if (this.threads === 1 || this.share >= ENOUGH_SHARE || nowMs - this.changedAtMs < SETTLE_DOWN_MS) return;
    this.change(Math.max(1, Math.min(this.threads - 1, Math.round(this.threads * this.share))), nowMs);
  }

  /** So many cores lay idle on the machine since the last look. */
  coresIdle(idleCores: number, nowMs: number): void {
    if (this.threads >= this.limits.max || idleCores < ROOM_CORES || nowMs - this.changedAtMs < SETTLE_UP_MS) return;
    this.change(Math.min(this.limits.max, this.threads + Math.max(1, Math.floor(idleCores))), nowMs);
  }

  /** At the start nothing has run yet: as many threads as there are idle cores, when the machine is busy. */
  begin(idleCores: number, nowMs: number): void {
    this.change(Math.max(1, Math.min(this.limits.max, Math.round(idleCores))), nowMs);
  }

  private change(threads: number, nowMs: number): void {
    this.threads = threads;
    this.share = 1;
    this.changedAtMs = nowMs;
  }
}
