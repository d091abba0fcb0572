import { BATCH_HEADER, NOTICE, NOTICE_WORDS } from '../batch-wire.js';
import { headroomOf } from '../memory/headroom.js';
import { RESULT, RESULT_HEADER_WORDS, RESULT_SAMPLE, RESULT_SAMPLE_WORDS } from '../result-wire.js';
import { encodeSampling, GREEDY_SAMPLING } from '../sampling.js';
import { SAMPLE_FLAGS_DONE } from '../step-output.js';
import { NOTICE_KIND } from '../token-wire.js';
import { SimulatedCrash, type SimulatedDevice } from './device.js';
import type { LaggedReadings } from './lagged-readings.js';
import { type Followed, Recorder } from './recorder.js';
import type { Moment, SimulationResult } from './result.js';
import type { FinishedMove, FinishedStep, SimulatedForward } from './simulated-forward.js';
import type { LiveReadings, SimulatedOverlap } from './simulated-overlap.js';
import type { Workload, WorkRequest } from './workload.js';

/** How often a worker with nothing to do looks around: the longest sleep of the real ones. */
const TICK_MS = 100;
/** Readings at most this often while steps run, and when idle: as the forward worker has it. */
const READ_BUSY_MS = 50;
const READ_IDLE_MS = 250;

export interface SimulationParts {
  device: SimulatedDevice;
  forward: SimulatedForward;
  overlap: SimulatedOverlap;
  readings: LaggedReadings;
  workload: Workload;
  seconds: number;
  /** After the load the simulation goes on for at most so long, until every request is over. */
  drainMs: number;
  momentEveryMs: number;
  contextTokens: number;
  maxWaitMs: number;
  prefixCache: boolean;
  isOverlapped: boolean;
}

/** What the device is doing, until when. */
type Job = { endMs: number; step: FinishedStep } | { endMs: number; move: FinishedMove };

type Measured = Omit<SimulationResult, 'plan' | 'ladder'>;

/**
 * An event loop over simulated time. A step's end, a request's arrival and a tick are its events; the next step is planned just before the
 * running one ends, with its tokens still unknown, as the overlap worker does.
 */
export class Simulation {
  private readonly recorder = new Recorder();
  private readonly moments: Moment[] = [];
  private readonly replans: SimulationResult['replans'] = [];
  private nowMs = 0;
  private job: Job | null = null;
  private planned: Int32Array | null = null;
  private nextId = 1;
  private nextMomentMs = 0;
  private evictions = 0;
  private evictionsBeforePrefill = 0;
  private progressAtMs = 0;
  private longestStandstillMs = 0;

  constructor(private readonly parts: SimulationParts) {
    parts.forward.answerTokensOf = (request) => this.recorder.answerTokensOf(request);
  }

  run(): Measured {
    let crash: string | null = null;
    try {
      this.read(0);
      this.loop();
    } catch (error) {
      if (!(error instanceof SimulatedCrash)) throw error;
      crash = `${(error.atMs / 1000).toFixed(1)} s: ${error.message}`;
    }
    return this.measured(crash);
  }

  private loop(): void {
    const endMs = this.parts.seconds * 1000;
    for (;;) {
      const nowMs = this.nextEventMs();
      const isOver = nowMs > endMs && (this.recorder.openCount === 0 || nowMs > endMs + this.parts.drainMs);
      if (isOver) return;
      this.nowMs = nowMs;
      this.parts.device.look(nowMs);
      this.takeArrivals();
      if (this.job !== null && this.job.endMs <= nowMs) this.finishJob(this.job);
      else if (this.job === null) this.read(READ_IDLE_MS);
      this.startWork();
      this.watchProgress();
      this.noteMoment();
    }
  }

  private nextEventMs(): number {
    const jobMs = this.job?.endMs ?? this.nowMs + TICK_MS;
    return Math.max(Math.min(jobMs, this.parts.workload.nextAtMs()), this.nowMs);
  }

  private takeArrivals(): void {
    const { workload, contextTokens } = this.parts;
    while (workload.nextAtMs() <= this.nowMs) this.submit(workload.take(contextTokens));
  }

  private submit(work: WorkRequest): void {
    // The HTTP server refuses what can never fit; the scheduler does not see it.
    if (work.promptTokens.length + work.maxTokens > this.parts.contextTokens) {
      this.recorder.refuse('neverFits');
      this.parts.workload.over(work, [], this.nowMs);
      return;
    }
    const id = this.nextId++;
    this.recorder.arrive(id, work, this.nowMs);
    this.parts.overlap.scheduler.submit({
      id,
      promptTokens: work.promptTokens,
      sampling: encodeSampling({ ...GREEDY_SAMPLING, maxTokens: work.maxTokens }),
      maxTokens: work.maxTokens,
      penaltyLastTokens: 0,
      priority: work.priority,
      cacheSalt: 0,
      usesPrefixCache: this.parts.prefixCache,
      boundaries: [],
      allowsDrafts: false,
      arrivedAtMs: this.nowMs,
      maxWaitMs: this.parts.maxWaitMs,
    });
  }

  private finishJob(job: Job): void {
    this.job = null;
    this.progressAtMs = this.nowMs;
    if ('move' in job) {
      this.read(0);
      const { rung, carried } = job.move;
      this.parts.overlap.moved(rung, carried, this.nowMs);
      return;
    }
    this.read(READ_BUSY_MS);
    if (this.parts.isOverlapped) this.planAhead();
    this.parts.overlap.scheduler.applyResult(job.step.result, 0);
    this.takeTokens(job.step.result);
  }

  /** The next record, planned while the result of the running one is not known yet. */
  private planAhead(): void {
    const planned = this.parts.overlap.plan(this.nowMs, this.live());
    if (planned === null) return;
    if ('move' in planned) throw new Error('a move was planned while a step was in flight');
    this.planned = planned.record;
  }

  private startWork(): void {
    if (this.job !== null) return;
    const { overlap, forward } = this.parts;
    if (this.planned !== null) {
      const record = this.planned;
      this.planned = null;
      this.startStep(record);
      return;
    }
    const next = overlap.plan(this.nowMs, this.live());
    if (next === null) return;
    if ('record' in next) {
      this.startStep(next.record);
      return;
    }
    const { rung, keep, reason } = next.move;
    this.replans.push({ atSeconds: this.nowMs / 1000, from: overlap.rung, to: rung, reason });
    const move = forward.move(rung, keep, this.nowMs);
    this.job = { endMs: this.nowMs + move.durationMs, move };
  }

  private startStep(record: Int32Array): void {
    this.takeNotices(record);
    const step = this.parts.forward.step(record, this.parts.overlap.epoch, this.nowMs);
    this.evictions += step.work.evictions;
    if (step.work.promptTokens > 0) this.evictionsBeforePrefill += step.work.evictions;
    this.job = { endMs: this.nowMs + step.durationMs, step };
  }

  private takeNotices(record: Int32Array): void {
    const count = record[BATCH_HEADER.noticeCount];
    for (let at = record.length - count * NOTICE_WORDS; at < record.length; at += NOTICE_WORDS) {
      const id = record[at + NOTICE.request];
      const kind = record[at + NOTICE.kind];
      const a = record[at + NOTICE.a];
      if (kind === NOTICE_KIND.started) this.recorder.started(id, a, record[at + NOTICE.b], this.nowMs);
      if (kind === NOTICE_KIND.finished) this.over(this.recorder.finished(id, a));
    }
  }

  private takeTokens(result: Int32Array): void {
    for (let i = 0; i < result[RESULT.sampleCount]; i++) {
      const at = RESULT_HEADER_WORDS + i * RESULT_SAMPLE_WORDS;
      const id = result[at + RESULT_SAMPLE.request];
      this.recorder.token(id, result[at + RESULT_SAMPLE.token], this.nowMs);
      if (result[at + RESULT_SAMPLE.flags] & SAMPLE_FLAGS_DONE) this.over(this.recorder.done(id));
    }
  }

  private over({ work, answer }: Followed): void {
    this.parts.workload.over(work, answer, this.nowMs);
  }

  private read(leastAgeMs: number): void {
    const { readings, device } = this.parts;
    if (readings.ageMs(this.nowMs) >= leastAgeMs) readings.take(device.readings(this.nowMs), this.nowMs);
  }

  private live(): LiveReadings {
    const seen = this.parts.readings.seen(this.nowMs);
    return {
      headroomBytes: headroomOf(seen, this.parts.device.machine.memory).bytes,
      pressureLevel: seen.pressureLevel,
    };
  }

  private watchProgress(): void {
    const isBusy = this.job !== null || this.recorder.openCount === 0;
    if (isBusy) this.progressAtMs = this.nowMs;
    this.longestStandstillMs = Math.max(this.longestStandstillMs, this.nowMs - this.progressAtMs);
  }

  private noteMoment(): void {
    if (this.nowMs < this.nextMomentMs) return;
    this.nextMomentMs = this.nowMs + this.parts.momentEveryMs;
    const { device, overlap } = this.parts;
    const { scheduler } = overlap;
    this.moments.push({
      atSeconds: this.nowMs / 1000,
      usedBytes: device.usedBytes(this.nowMs),
      limitBytes: device.limitBytes,
      headroomBytes: this.live().headroomBytes,
      kvBytes: device.of('kv'),
      cachedBytes: scheduler.cellCounts().cached * overlap.cellBytes,
      runningRequests: scheduler.runningCount,
      waitingRequests: scheduler.waitingCount,
      evictions: this.evictions,
      hitRate: this.recorder.takeHitRate(),
    });
  }

  private measured(crash: string | null): Measured {
    const { recorder, parts } = this;
    const { seconds, device } = parts;
    const done = recorder.ends.done ?? 0;
    return {
      crash,
      seconds,
      ends: recorder.ends,
      open: recorder.openCount,
      answerTokens: recorder.answerTokens,
      promptTokens: recorder.promptTokens,
      answerTokensPerSecond: recorder.answerTokens / seconds,
      requestsPerHour: (done / seconds) * 3600,
      waits: recorder.waits,
      firstTokens: recorder.firstTokens,
      evictions: this.evictions,
      evictionsBeforePrefill: this.evictionsBeforePrefill,
      preemptions: parts.overlap.scheduler.counters.preemptions,
      replans: this.replans,
      limitBytes: device.limitBytes,
      peakUsedBytes: device.peakUsedBytes,
      peakShortageBytes: device.peakShortageBytes,
      hitRate: recorder.hitRate,
      repeatHitRate: recorder.repeatHitRate,
      longestStandstillMs: this.longestStandstillMs,
      moments: this.moments,
    };
  }
}
