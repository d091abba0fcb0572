import { receiveMessageOnPort } from 'node:worker_threads';
import { BATCH_RECORD_TYPE } from '../shared/batch-wire.js';
import {
  CONTEXT_HEADER,
  CONTEXT_HEADER_WORDS,
  CONTEXT_RECORD_TYPE,
  KEPT_WORDS,
  RUNG_NONE,
} from '../shared/context-wire.js';
import { CONTROL, FLUSH, rescueWord, STOP } from '../shared/control-layout.js';
import { DiskLink } from '../shared/disk-link.js';
import type { DiskEvent } from '../shared/disk-messages.js';
import type { Doorbell } from '../shared/doorbell.js';
import { GaugeReader, GaugeWriter } from '../shared/gauges.js';
import { DEVICE_GAUGES, SCHEDULER_GAUGES, type SchedulerGauge } from '../shared/gauges-layout.js';
import { heartbeatNow } from '../shared/heartbeat.js';
import { MIB } from '../shared/memory/constants.js';
import type { DeviceMemory } from '../shared/memory/headroom.js';
import { hostTierBudgetBytes } from '../shared/memory/host-tier-budget.js';
import { type RungInput, type RungLimits, type RungMove, RungPolicy } from '../shared/memory/rung-policy.js';
import { spillBudget } from '../shared/memory/spill-budget.js';
import { bellOf, type CoreBuffers, type RingBuffers } from '../shared/pipeline-buffers.js';
import { RESULT, RESULT_HEADER_WORDS, RESULT_TYPE } from '../shared/result-wire.js';
import { RingConsumer, RingProducer } from '../shared/ring.js';
import { SAMPLING } from '../shared/sampling-wire.js';
import type { CarryBudget } from '../shared/scheduler/carry-over.js';
import type { SchedulerLimits } from '../shared/scheduler/limits.js';
import { Scheduler } from '../shared/scheduler/scheduler.js';
import { STEP_STATUS } from '../shared/step-output.js';
import { SUBMIT, SUBMIT_FLAG, SUBMIT_HEADER_WORDS, SUBMIT_TYPE } from '../shared/submit-wire.js';
import { LiveMemory, type ReadHost } from './live-memory.js';
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
/** Where no context stands. */
const NOBODY = { copied: [], spilled: [], spilledTokens: 0 };
/** How often the ladder is looked at when nobody waits for it. Chosen: pressure and idleness are told by tenths of seconds. */
const RUNG_CHECK_MS = 100;

export interface OverlapOptions {
  /** Of the context that stands; the others of the ladder differ in their cells alone. */
  limits: SchedulerLimits;
  ladder: RungLimits;
  /** Requests that run at once, where the context has sequences for them. */
  runningCap: number;
  memory: DeviceMemory;
  rung: number;
  epoch: number;
  /** False: schedule and forward in lock step. */
  overlap: boolean;
  maxWaitMs: number;
  /** Bytes that evicted prefixes may take in host memory at most; 0: they are not saved. */
  hostPrefixBytesMax: number;
  /** Of the model. */
  layers: number;
  /** Sequences may wait in files while the context is replaced. */
  canSpill: boolean;
}

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
  private readonly rungs: RungPolicy;
  private readonly live: LiveMemory;
  private readonly inFlightMax: number;
  private rung: number;
  private epoch: number;
  /** A context record is on its way: nothing is planned until its answer. */
  private isMoving = false;
  /** The step in flight was told to give up, and the context to fall to this rung. */
  private rescueRung: number | null = null;
  private rungCheckAtMs = 0;
  /** When the reading was taken after which the host tier was emptied. */
  private emptiedAtReading = Number.NaN;
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
    private readonly report: (message: string) => void,
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
    this.rungs = new RungPolicy(options.ladder, performance.now());
    this.live = new LiveMemory(new GaugeReader(core.deviceGauges, DEVICE_GAUGES), options.memory, readHost);
    this.rung = options.rung;
    this.epoch = options.epoch;
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
      else this.submitRequest(words, at, record.lengthWords);
      this.submit.release();
    }
  }

  private submitRequest(words: Int32Array, at: number, lengthWords: number): void {
    const promptCount = words[at + SUBMIT.promptTokens];
    const samplingWords = words[at + SUBMIT.samplingWords];
    const boundaryCount = words[at + SUBMIT.boundaries];
    if (lengthWords !== SUBMIT_HEADER_WORDS + samplingWords + promptCount + boundaryCount)
      throw new Error('a submit record contradicts itself');
    const samplingAt = at + SUBMIT_HEADER_WORDS;
    const promptAt = samplingAt + samplingWords;
    // slice copies: the ring's room is main's again when this returns.
    const sampling = words.slice(samplingAt, samplingAt + samplingWords);
    this.scheduler.submit({
      id: words[at + SUBMIT.request],
      promptTokens: words.slice(promptAt, promptAt + promptCount),
      sampling,
      maxTokens: sampling[SAMPLING.maxTokens],
      penaltyLastTokens: sampling[SAMPLING.penaltyLastTokens],
      priority: words[at + SUBMIT.priority],
      cacheSalt: words[at + SUBMIT.cacheSalt],
      boundaries: Array.from(words.subarray(promptAt + promptCount, at + lengthWords)),
      usesPrefixCache: (words[at + SUBMIT.flags] & SUBMIT_FLAG.noPrefixCache) === 0,
      allowsDrafts: (words[at + SUBMIT.flags] & SUBMIT_FLAG.noDrafts) === 0,
      arrivedAtMs: performance.now(),
      maxWaitMs: words[at + SUBMIT.maxWaitMs] || this.options.maxWaitMs,
    });
  }

  private takeResults(): void {
    const words = this.results.payloadWords;
    for (let record = this.results.peek(); record; record = this.results.peek()) {
      const { at } = record;
      if (record.type === RESULT_TYPE.context) {
        this.takeContext(words, at);
      } else {
        // Given up as it was told: the forward worker tells of the context it has made instead.
        if (words[at + RESULT.status] === STEP_STATUS.aborted) this.rescueRung = null;
        this.scheduler.applyResult(words, at);
        this.stepStartMs = performance.now();
      }
      this.results.release();
    }
  }

  /** A context stands: the one that was asked for, another one if that could not be made, or one made anew after a failure. */
  private takeContext(words: Int32Array, at: number): void {
    this.rung = words[at + RESULT.rung];
    this.epoch = words[at + RESULT.epoch];
    const carriedAt = at + RESULT_HEADER_WORDS;
    const carried = Array.from(words.subarray(carriedAt, carriedAt + words[at + RESULT.sampleCount]));
    const cells = words[at + RESULT.contextTokens] || this.options.limits.cells;
    const limits = { ...this.options.limits, ...streamsOf(this.options, this.rung), cells };
    if (this.rung === RUNG_NONE) this.scheduler.putAway();
    else if (this.isMoving) this.scheduler.enterContext(limits, this.epoch, carried);
    else this.scheduler.applyContext(limits, this.epoch);
    this.isMoving = false;
  }

  /** While a step runs nothing else may stop memory from running out: then the step is given up, and the context falls. */
  private watchMemory(nowMs: number): void {
    if (!this.live.refresh(nowMs)) return;
    const { scheduler } = this;
    scheduler.readingTaken();
    scheduler.setHostPrefixBudget(this.hostPrefixBudgetBytes(), nowMs);
    if (scheduler.inFlightCount === 0 || this.isMoving || this.rescueRung !== null) return;
    const ranMs = nowMs - this.stepStartMs;
    const leftMs = scheduler.currentStepMicros / 1000 - ranMs;
    // One that runs longer than expected may take as long again.
    const busyMs = leftMs > 0 ? leftMs : ranMs;
    const move = this.rungs.rescue(this.rungInput(nowMs), busyMs);
    if (!move) return;
    this.report(`the running step is given up: ${move.reason}`);
    this.rescueRung = move.rung;
    Atomics.store(this.control, CONTROL.rescue, rescueWord(move.rung));
    Atomics.store(this.control, CONTROL.abortDecode, 1);
  }

  private hostPrefixBudgetBytes(): number {
    const { live, options } = this;
    const { heldBytes, freshBytes } = this.scheduler.hostPrefix;
    const leastBytes = Math.min(live.hostHeadroomBytes, this.rungs.foreseenBytes(live.headroomBytes));
    return hostTierBudgetBytes({
      mostBytes: options.hostPrefixBytesMax,
      heldBytes,
      headroomBytes: (this.isOneMemory ? leastBytes : live.hostHeadroomBytes) - freshBytes,
      limitBytes: live.hostLimitBytes,
      marginBytes: this.isOneMemory ? options.ladder.marginBytes : 0,
      pressureLevel: live.pressureLevel,
    });
  }

  /** Saved prefixes lie in the memory that the context lies in. */
  private get isOneMemory(): boolean {
    return this.options.memory !== 'discrete';
  }

  /** The step ended before it saw that it should give up: the context falls in order, with what can be carried. */
  private withdrawRescue(rung: number): void {
    this.rescueRung = null;
    Atomics.store(this.control, CONTROL.abortDecode, 0);
    Atomics.store(this.control, CONTROL.rescue, 0);
    this.sendContext({ rung, copyBytes: 0, spillMs: 0 });
  }

  /** Moves the context when its policy says so. Called with the plan's wish known. True: a move is wanted, and waits or is on its way. */
  private moveContext(nowMs: number): boolean {
    if (this.isMoving) return true;
    const { scheduler } = this;
    if (this.rescueRung !== null) {
      if (scheduler.inFlightCount === 0) this.withdrawRescue(this.rescueRung);
      return true;
    }
    const isUrgent = scheduler.wantsContext || (this.rung === RUNG_NONE && scheduler.activeCount > 0);
    if (!isUrgent && nowMs < this.rungCheckAtMs) return false;
    const input = this.rungInput(nowMs);
    scheduler.canGrow = this.rungs.canClimb(input);
    scheduler.canSpread = this.rungs.canSpread(input);
    scheduler.tierHoldsGrowth = this.holdsGrowth(input, scheduler.canGrow);
    scheduler.headroomBytes = input.headroomBytes;
    // Under steady load something is always in flight: a move that is wanted must be let through, or pressure would find no answer.
    const { heldBytes } = scheduler.hostPrefix;
    if (this.isOneMemory && heldBytes > 0 && this.rungs.isPressed) {
      // Saved prefixes go before a rung is lowered; the next reading shows whether that was enough.
      scheduler.emptyHostTier(nowMs);
      this.emptiedAtReading = this.live.readAtMs;
      return false;
    }
    if (this.emptiedAtReading === this.live.readAtMs) return false;
    if (scheduler.inFlightCount > 0 && this.rungs.wantsMove(input)) return true;
    this.rungCheckAtMs = nowMs + RUNG_CHECK_MS;
    if (scheduler.inFlightCount > 0) return false;
    const move = this.rungs.decide(input);
    if (!move) return false;
    this.report(`the context moves: ${move.reason}`);
    this.sendContext(move);
    return true;
  }

  /** A climb would be granted if the host tier gave its memory back. */
  private holdsGrowth(input: RungInput, canGrow: boolean): boolean {
    const { heldBytes } = this.scheduler.hostPrefix;
    if (canGrow || heldBytes === 0 || !this.isOneMemory) return false;
    return this.rungs.canClimb({ ...input, headroomBytes: input.headroomBytes + heldBytes });
  }

  private rungInput(nowMs: number): RungInput {
    const { scheduler } = this;
    const { pressureLevel } = this.live;
    // What was saved since the reading is charged, or a climb and the tier would both take the same bytes.
    const { heldBytes, freshBytes } = this.isOneMemory ? scheduler.hostPrefix : { heldBytes: 0, freshBytes: 0 };
    const headroomBytes = Math.max(0, this.live.headroomBytes - freshBytes);
    const cells = scheduler.cellCounts();
    return {
      nowMs,
      rung: this.rung,
      wantedCells: scheduler.wantedCells,
      wantedSequences: scheduler.wantedSequences,
      longestCells: scheduler.longestCells,
      usedCells: cells.used,
      activeCells: cells.used - cells.cached,
      isStalled: scheduler.isStalled,
      hasWork: scheduler.activeCount > 0,
      headroomBytes,
      reclaimableBytes: heldBytes,
      pressureLevel,
    };
  }

  private carryBudget({ copyBytes, spillMs }: Omit<RungMove, 'reason'>): CarryBudget {
    const { ladder, layers, canSpill } = this.options;
    const { marginBytes, cellBytes } = ladder;
    const { promptTokenMicros } = this.scheduler.times;
    const bytesPerMs = this.live.spillBytesPerMs;
    const spill = { spillMs: canSpill ? spillMs : 0, marginBytes, cellBytes, layers, bytesPerMs, promptTokenMicros };
    return { copyTokens: Math.floor(copyBytes / Math.max(1, cellBytes)), ...spillBudget(spill) };
  }

  private sendContext(move: Omit<RungMove, 'reason'>): void {
    const { rungs, cellBytes } = this.options.ladder;
    const { rung } = move;
    const { sequences, cells } = rung === RUNG_NONE ? { sequences: 0, cells: 0 } : rungs[rung];
    const { copied, spilled, spilledTokens } =
      this.rung === RUNG_NONE ? NOBODY : this.scheduler.leaveContext(sequences, cells, this.carryBudget(move));
    const keep = [...copied, ...spilled];
    const length = CONTEXT_HEADER_WORDS + keep.length * KEPT_WORDS;
    const at = this.batches.reserve(CONTEXT_RECORD_TYPE, length);
    if (at < 0) throw new Error('the batch ring is full although nothing is in flight');
    const words = this.batches.payloadWords;
    words[at + CONTEXT_HEADER.epoch] = this.epoch + 1;
    words[at + CONTEXT_HEADER.rung] = rung;
    words[at + CONTEXT_HEADER.keepCount] = keep.length;
    words[at + CONTEXT_HEADER.copyCount] = copied.length;
    words[at + CONTEXT_HEADER.spillMs] = Math.ceil(move.spillMs);
    words[at + CONTEXT_HEADER.spillMib] = Math.ceil((spilledTokens * cellBytes) / MIB);
    keep.forEach(({ from, to }, i) => {
      words[at + CONTEXT_HEADER_WORDS + i * KEPT_WORDS] = from;
      words[at + CONTEXT_HEADER_WORDS + i * KEPT_WORDS + 1] = to;
    });
    this.batches.commit();
    this.isMoving = true;
    this.forwardBell.ring();
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
    if (this.moveContext(startMs)) return false;
    if (!scheduler.schedule(startMs)) {
      if (scheduler.wantsContext && scheduler.inFlightCount === 0) return this.moveContext(startMs);
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
      runningCap: streamsOf(this.options, this.rung).runningCap,
      runningRequests: scheduler.runningCount,
      waitingRequests: scheduler.waitingCount,
      ...scheduler.counters,
      hostPrefixBudgetBytes: scheduler.hostPrefix.budgetBytes,
      diskPrefixBytes: scheduler.disk.heldBytes,
      diskPrefixBoundBytes: scheduler.disk.boundBytes,
      liveHeadroomBytes: this.live.headroomBytes,
      foreseenHeadroomBytes: this.rungs.foreseenBytes(this.live.headroomBytes),
      lastScheduleMicros: this.lastScheduleMicros,
    });
  }
}

/** Sequences of a rung's context, and how many of them may run. */
function streamsOf(
  { limits, ladder, runningCap }: OverlapOptions,
  rung: number,
): { sequences: number; runningCap: number } {
  const sequences = rung === RUNG_NONE ? limits.sequences : ladder.rungs[rung].sequences;
  return { sequences, runningCap: Math.min(runningCap, sequences) };
}
