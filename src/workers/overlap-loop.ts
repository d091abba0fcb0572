import { receiveMessageOnPort } from 'node:worker_threads';
import { BATCH_RECORD_TYPE } from '../shared/batch-wire.js';
import { CONTROL, FLUSH, STOP } from '../shared/control-layout.js';
import { DiskLink } from '../shared/disk-link.js';
import type { DiskEvent } from '../shared/disk-messages.js';
import type { Doorbell } from '../shared/doorbell.js';
import { GaugeReader, GaugeWriter } from '../shared/gauges.js';
import { DEVICE_GAUGES, SCHEDULER_GAUGES, type SchedulerGauge } from '../shared/gauges-layout.js';
import { heartbeatNow } from '../shared/heartbeat.js';
import { bellOf, type CoreBuffers, type RingBuffers } from '../shared/pipeline-buffers.js';
import { RESULT, RESULT_TYPE } from '../shared/result-wire.js';
import { RingConsumer, RingProducer } from '../shared/ring.js';
import { Scheduler } from '../shared/scheduler/scheduler.js';
import { STEP_STATUS } from '../shared/step-output.js';
import { SUBMIT, SUBMIT_TYPE } from '../shared/submit-wire.js';
import { ContextMover } from './context-mover.js';
import { LiveMemory, type ReadHost } from './live-memory.js';
import type { OverlapOptions } from './overlap-options.js';
import { readSubmit } from './submit-record.js';
import type { DiskAccess } from './worker-messages.js';

/** Records in flight: one that runs and one that waits for it. More would only delay cancels and new requests. */
const IN_FLIGHT_MAX = 2;
/** A step that is over sooner than this is followed at once; waiting for company would cost more than it brings. Chosen. */
const EAGER_STEP_MICROS = 2_000;
/** A result that is due within this is looked for instead of slept for: on a GPU with a tiny model a wake-up is a good part of a step. */
const SPIN_STEP_MICROS = 200;
/** Time kept for planning and for waking up, before the running step's expected end. Measured: schedule() of 64 requests and a wake-up. */
const PLAN_LEAD_MICROS = 1_500;
/** Steps vary: one that ends this much early should still find the next planned. Chosen: requests wait no longer for it than that. */
const PLAN_LEAD_SHARE = 0.2;

/**
 * The overlap worker's loop: takes requests and results, plans the next step while one runs. It plans late: a request that arrives
 * while a long step runs still joins the next one.
 */
export class OverlapLoop {
  private readonly control: Int32Array;
  private readonly bell: Doorbell;
  private readonly forwardBell: Doorbell;
  private readonly mainBell: Doorbell;
  private readonly diskBell: Doorbell;
  private readonly diskLink: DiskLink | null;
  /** Events of the disk worker that were taken. */
  private diskMail = 0;
  private readonly submit: RingConsumer;
  private readonly results: RingConsumer;
  private readonly batches: RingProducer;
  private readonly gauges: GaugeWriter<SchedulerGauge>;
  private readonly scheduler: Scheduler;
  private readonly mover: ContextMover;
  private readonly live: LiveMemory;
  private readonly inFlightMax: number;
  /** When the oldest step in flight began to run. */
  private stepStartMs = 0;
  private lastScheduleMicros = 0;
  private gaugesAtMs = 0;
  private isHurried = false;

  constructor(
    core: CoreBuffers,
    rings: RingBuffers,
    private readonly options: OverlapOptions,
    /** Why the context moves, for the log: this thread has none. */
    report: (message: string) => void,
    readHost: ReadHost,
    /** null: there is no disk tier. */
    private readonly disk: DiskAccess | null = null,
  ) {
    this.control = new Int32Array(core.control);
    this.bell = bellOf(core, 'overlap');
    this.forwardBell = bellOf(core, 'forward');
    this.mainBell = bellOf(core, 'main');
    this.diskBell = bellOf(core, 'disk');
    this.diskLink = disk ? new DiskLink(disk.link) : null;
    this.submit = new RingConsumer(rings.submit);
    this.results = new RingConsumer(rings.result);
    this.batches = new RingProducer(rings.batch);
    this.gauges = new GaugeWriter(core.schedulerGauges, SCHEDULER_GAUGES);
    this.scheduler = new Scheduler(options.limits, options.epoch);
    this.live = new LiveMemory(new GaugeReader(core.deviceGauges, DEVICE_GAUGES), options.memory, readHost);
    const { scheduler, live, control, batches, forwardBell } = this;
    this.mover = new ContextMover(options, { scheduler, live, control, batches, forwardBell, report });
    this.inFlightMax = options.overlap ? IN_FLIGHT_MAX : 1;
  }

  /** Runs until the stop word says so. */
  run(): void {
    this.writeGauges(performance.now());
    while (Atomics.load(this.control, CONTROL.stop) !== STOP.now) {
      Atomics.store(this.control, CONTROL.overlapHeartbeat, heartbeatNow());
      const seen = this.bell.read();
      this.takeResults();
      this.takeDiskEvents();
      this.takeRequests();
      this.watchMemory(performance.now());
      const waitMs = this.planDelayMs(performance.now());
      const isPlanned = waitMs === 0 && this.planStep();
      this.sendDiskCommands();
      if (isPlanned) continue;
      this.tellFlushed();
      if (this.isResultNear() && this.bell.spin(seen, SPIN_STEP_MICROS / 1000)) continue;
      // The longest sleep bounds how late a stop or a dead peer is noticed.
      const longestMs = this.live.intervalMs;
      this.bell.wait(seen, waitMs > 0 ? Math.min(waitMs, longestMs) : longestMs);
    }
  }

  private takeDiskEvents(): void {
    const { disk, diskLink } = this;
    if (disk === null || diskLink === null) return;
    for (; this.diskMail !== diskLink.mail; this.diskMail = (this.diskMail + 1) | 0) {
      // Posted before it was counted: one that is not there was taken away by the disk worker's end.
      const got = receiveMessageOnPort(disk.port);
      if (!got) return;
      this.scheduler.disk.apply(got.message as DiskEvent, performance.now());
    }
  }

  private sendDiskCommands(): void {
    const { commands } = this.scheduler.disk;
    if (this.disk === null || commands.length === 0) return;
    for (const command of commands) this.disk.port.postMessage(command);
    commands.length = 0;
    this.diskBell.ring();
  }

  /** Main waits to stop until prefixes are written. */
  private tellFlushed(): void {
    if (Atomics.load(this.control, CONTROL.flush) !== FLUSH.asked) return;
    this.scheduler.hurryWrites();
    // The plan above may have been made before the hurry.
    if (!this.isHurried) this.bell.ring();
    else if (this.scheduler.isWritten && this.scheduler.inFlightCount === 0) {
      Atomics.store(this.control, CONTROL.flush, FLUSH.done);
      this.mainBell.ring();
    }
    this.isHurried = true;
  }

  private takeRequests(): void {
    const words = this.submit.payloadWords;
    for (let record = this.submit.peek(); record; record = this.submit.peek()) {
      const { at } = record;
      if (record.type === SUBMIT_TYPE.cancel) this.scheduler.cancel(words[at + SUBMIT.request]);
      else this.scheduler.submit(readSubmit(words, at, record.lengthWords, this.options.maxWaitMs));
      this.submit.release();
    }
  }

  private takeResults(): void {
    const words = this.results.payloadWords;
    for (let record = this.results.peek(); record; record = this.results.peek()) {
      const { at } = record;
      if (record.type === RESULT_TYPE.context) {
        this.mover.takeContext(words, at);
      } else {
        if (words[at + RESULT.status] === STEP_STATUS.aborted) this.mover.stepAborted();
        this.scheduler.applyResult(words, at);
        this.stepStartMs = performance.now();
      }
      this.results.release();
    }
  }

  private watchMemory(nowMs: number): void {
    if (!this.live.refresh(nowMs)) return;
    this.scheduler.readingTaken();
    this.scheduler.setHostPrefixBudget(this.mover.hostPrefixBudgetBytes, nowMs);
    this.mover.watch(nowMs, this.stepStartMs);
  }

  /** Milliseconds until the next step should be planned; 0: now. Infinity: not before a result. */
  private planDelayMs(nowMs: number): number {
    const { inFlightCount, currentStepMicros } = this.scheduler;
    if (inFlightCount === 0) return 0;
    if (inFlightCount >= this.inFlightMax) return Number.POSITIVE_INFINITY;
    if (currentStepMicros < EAGER_STEP_MICROS) return 0;
    const leadMicros = Math.max(PLAN_LEAD_MICROS, currentStepMicros * PLAN_LEAD_SHARE);
    const planAtMs = this.stepStartMs + (currentStepMicros - leadMicros) / 1000;
    return Math.max(0, planAtMs - nowMs);
  }

  private isResultNear(): boolean {
    const { inFlightCount, currentStepMicros } = this.scheduler;
    return inFlightCount > 0 && currentStepMicros > 0 && currentStepMicros < SPIN_STEP_MICROS;
  }

  /** Plans and sends one record. False: there was nothing to send, or no room for it. */
  private planStep(): boolean {
    const startMs = performance.now();
    const { scheduler, batches } = this;
    const { plan } = scheduler;
    // A wish of the last plan is granted before the next one; meanwhile what is in flight runs out.
    if (this.mover.move(startMs)) return false;
    if (!scheduler.schedule(startMs)) {
      if (scheduler.wantsContext && scheduler.inFlightCount === 0) return this.mover.move(startMs);
      this.writeGauges(startMs);
      return false;
    }
    const at = batches.reserve(BATCH_RECORD_TYPE, plan.recordWords);
    // The ring holds eight of the largest records and two are in flight: no room means that the peer lost its place.
    if (at < 0) throw new Error('the batch ring is full with fewer records in flight than it holds');
    plan.encode(batches.payloadWords, at);
    batches.commit();
    if (scheduler.inFlightCount === 0) this.stepStartMs = performance.now();
    scheduler.sent();
    this.forwardBell.ring();
    this.lastScheduleMicros = (performance.now() - startMs) * 1000;
    this.writeGauges(startMs);
    return true;
  }

  /** At most every few milliseconds: a step may take fifty microseconds, and nobody reads that often. */
  private writeGauges(nowMs: number): void {
    const idle = this.scheduler.inFlightCount === 0;
    if (!idle && nowMs - this.gaugesAtMs < 5) return;
    this.gaugesAtMs = nowMs;
    const { scheduler } = this;
    const cells = scheduler.cellCounts();
    this.gauges.write({
      kvCachedTokens: cells.cached,
      kvActiveTokens: cells.used - cells.cached,
      plannedChunkTokens: this.options.limits.chunkTokens,
      liveChunkTokens: scheduler.chunkTokens || this.options.limits.chunkTokens,
      runningCap: this.mover.runningCap,
      runningRequests: scheduler.runningCount,
      waitingRequests: scheduler.waitingCount,
      ...scheduler.counters,
      hostPrefixBudgetBytes: scheduler.hostPrefix.budgetBytes,
      diskPrefixBytes: scheduler.disk.heldBytes,
      diskPrefixBoundBytes: scheduler.disk.boundBytes,
      liveHeadroomBytes: this.live.headroomBytes,
      foreseenHeadroomBytes: this.mover.foreseenBytes,
      lastScheduleMicros: this.lastScheduleMicros,
    });
  }
}
