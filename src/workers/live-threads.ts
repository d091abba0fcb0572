import os from 'node:os';
import { ThreadPolicy } from '../shared/scheduler/thread-policy.js';

/** How often idle cores are counted: reading them takes a millisecond on a large machine. Chosen. */
const LOOK_MS = 500;

/** The forward worker's measurements for ThreadPolicy: CPU time of its steps, idle time of the machine's cores. */
export class LiveThreads {
  private readonly policy: ThreadPolicy;
  private lookedAtMs: number;
  private idleMs: number;
  private cpuMicros = 0;

  constructor(maxThreads: number) {
    this.policy = new ThreadPolicy({ max: maxThreads });
    this.lookedAtMs = performance.now();
    this.idleMs = idleMilliseconds();
  }

  get threads(): number {
    return this.policy.threads;
  }

  /** Before the first step: sets the threads by what lay idle since this object was made. */
  begin(): void {
    const nowMs = performance.now();
    this.policy.begin(this.idleCores(nowMs), nowMs);
  }

  stepBegins(): void {
    const { user, system } = process.cpuUsage();
    this.cpuMicros = user + system;
  }

  stepEnded(threads: number, wallMicros: number): void {
    const nowMs = performance.now();
    const { user, system } = process.cpuUsage();
    this.policy.stepRan(threads, wallMicros, user + system - this.cpuMicros, nowMs);
    if (nowMs - this.lookedAtMs >= LOOK_MS) this.policy.coresIdle(this.idleCores(nowMs), nowMs);
  }

  private idleCores(nowMs: number): number {
    const idleMs = idleMilliseconds();
    const cores = (idleMs - this.idleMs) / Math.max(1, nowMs - this.lookedAtMs);
    this.idleMs = idleMs;
    this.lookedAtMs = nowMs;
    return cores;
  }
}

/** Time that all cores together have lain idle since the machine started. */
function idleMilliseconds(): number {
  return os.cpus().reduce((sum, cpu) => sum + cpu.times.idle, 0);
}
