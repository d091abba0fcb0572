import {
  CONTEXT_HEADER,
  CONTEXT_HEADER_WORDS,
  CONTEXT_RECORD_TYPE,
  KEPT_WORDS,
  RUNG_NONE,
} from '../shared/context-wire.js';
import { CONTROL, rescueWord } from '../shared/control-layout.js';
import type { Doorbell } from '../shared/doorbell.js';
import { MIB } from '../shared/memory/constants.js';
import { hostTierBudgetBytes } from '../shared/memory/host-tier-budget.js';
import { type RungInput, type RungMove, RungPolicy } from '../shared/memory/rung-policy.js';
import { spillBudget } from '../shared/memory/spill-budget.js';
import { RESULT, RESULT_HEADER_WORDS } from '../shared/result-wire.js';
import type { RingProducer } from '../shared/ring.js';
import type { CarryBudget } from '../shared/scheduler/carry-over.js';
import { rungInputOf } from '../shared/scheduler/rung-input.js';
import type { Scheduler } from '../shared/scheduler/scheduler.js';
import type { LiveMemory } from './live-memory.js';
import type { OverlapOptions } from './overlap-options.js';

/** Where no context stands. */
const NOBODY = { copied: [], spilled: [], spilledTokens: 0 };
/** How often the ladder is looked at when nobody waits for it. Chosen: pressure and idleness are told by tenths of seconds. */
const RUNG_CHECK_MS = 100;

/** What the mover acts through. */
interface MoverLinks {
  scheduler: Scheduler;
  live: LiveMemory;
  control: Int32Array;
  batches: RingProducer;
  forwardBell: Doorbell;
  /** Why the context moves, for the log: this thread has none. */
  report: (message: string) => void;
}

/**
 * Asks the forward worker for another context when its policy says so (rung-policy.ts): larger on demand, smaller under pressure, none when
 * idle. The order is always the same: what is in flight runs out, the scheduler leaves its context, a record goes, and nothing is planned
 * until the answer tells which context stands.
 */
export class ContextMover {
  private readonly rungs: RungPolicy;
  private rung: number;
  private epoch: number;
  /** A context record is on its way: nothing is planned until its answer. */
  private isMoving = false;
  private sentAtMs = 0;
  /** The step in flight was told to give up, and the context to fall to this rung. */
  private rescueRung: number | null = null;
  private rungCheckAtMs = 0;
  /** When the reading was taken after which the host tier was emptied. */
  private emptiedAtReading = Number.NaN;

  constructor(
    private readonly options: OverlapOptions,
    private readonly links: MoverLinks,
  ) {
    this.rungs = new RungPolicy(options.ladder, performance.now());
    this.rung = options.rung;
    this.epoch = options.epoch;
  }

  /** Requests that the context which stands lets run at once. */
  get runningCap(): number {
    return this.streams.runningCap;
  }

  /** Headroom as its fall lets expect it, bytes. */
  get foreseenBytes(): number {
    return this.rungs.foreseenBytes(this.links.live.headroomBytes);
  }

  /** A context stands: the one that was asked for, another one if that could not be made, or one made anew after a failure. */
  takeContext(words: Int32Array, at: number): void {
    this.rung = words[at + RESULT.rung];
    this.epoch = words[at + RESULT.epoch];
    const carriedAt = at + RESULT_HEADER_WORDS;
    const carried = Array.from(words.subarray(carriedAt, carriedAt + words[at + RESULT.sampleCount]));
    const cells = words[at + RESULT.contextTokens] || this.options.limits.cells;
    const limits = { ...this.options.limits, ...this.streams, cells };
    const { scheduler } = this.links;
    if (this.rung === RUNG_NONE) scheduler.putAway();
    else if (this.isMoving) scheduler.enterContext(limits, this.epoch, carried);
    else scheduler.applyContext(limits, this.epoch);
    if (this.isMoving) this.rungs.noteMade(this.rung, performance.now() - this.sentAtMs);
    this.isMoving = false;
  }

  /** The step in flight gave up, as it was told; the forward worker tells of the context that it has made instead. */
  stepAborted(): void {
    this.rescueRung = null;
  }

  /** While a step runs nothing else may stop memory from running out: then the step is given up, and the context falls. */
  watch(nowMs: number, stepStartMs: number): void {
    const { scheduler, control, report } = this.links;
    if (scheduler.inFlightCount === 0 || this.isMoving || this.rescueRung !== null) return;
    const ranMs = nowMs - stepStartMs;
    const leftMs = scheduler.currentStepMicros / 1000 - ranMs;
    // One that runs longer than expected may take as long again.
    const busyMs = leftMs > 0 ? leftMs : ranMs;
    const move = this.rungs.rescue(this.rungInput(nowMs), busyMs);
    if (!move) return;
    report(`the running step is given up: ${move.reason}`);
    this.rescueRung = move.rung;
    Atomics.store(control, CONTROL.rescue, rescueWord(move.rung));
    Atomics.store(control, CONTROL.abortDecode, 1);
  }

  /** What saved prefixes may take in host memory now. */
  get hostPrefixBudgetBytes(): number {
    const { options } = this;
    const { live, scheduler } = this.links;
    const { heldBytes, freshBytes } = scheduler.hostPrefix;
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
    const { control } = this.links;
    this.rescueRung = null;
    Atomics.store(control, CONTROL.abortDecode, 0);
    Atomics.store(control, CONTROL.rescue, 0);
    this.sendContext({ rung, copyBytes: 0, spillMs: 0, cacheBytes: 0 });
  }

  /** Moves the context when its policy says so. Called with the plan's wish known. True: a move is wanted, and waits or is on its way. */
  move(nowMs: number): boolean {
    const { scheduler, live, report } = this.links;
    // After a failed step the forward worker makes a context unasked: what the old one held must not be asked for.
    const isRemade = !scheduler.isOnContext && this.rung !== RUNG_NONE;
    if (this.isMoving || isRemade) return true;
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
      this.emptiedAtReading = live.readAtMs;
      return false;
    }
    if (this.emptiedAtReading === live.readAtMs) return false;
    if (scheduler.inFlightCount > 0 && this.rungs.wantsMove(input)) return true;
    this.rungCheckAtMs = nowMs + RUNG_CHECK_MS;
    if (scheduler.inFlightCount > 0) return false;
    const move = this.rungs.decide(input);
    if (!move) return false;
    report(`the context moves: ${move.reason}`);
    this.sendContext(move);
    return true;
  }

  /** A climb would be granted if the host tier gave its memory back. */
  private holdsGrowth(input: RungInput, canGrow: boolean): boolean {
    const { heldBytes } = this.links.scheduler.hostPrefix;
    if (canGrow || heldBytes === 0 || !this.isOneMemory) return false;
    return this.rungs.canClimb({ ...input, headroomBytes: input.headroomBytes + heldBytes });
  }

  private rungInput(nowMs: number): RungInput {
    const { scheduler, live } = this.links;
    const { pressureLevel } = live;
    // What was saved since the reading is charged, or a climb and the tier would both take the same bytes.
    const { heldBytes, freshBytes } = this.isOneMemory ? scheduler.hostPrefix : { heldBytes: 0, freshBytes: 0 };
    const headroomBytes = Math.max(0, live.headroomBytes - freshBytes);
    return rungInputOf(scheduler, {
      nowMs,
      rung: this.rung,
      headroomBytes,
      reclaimableBytes: heldBytes,
      pressureLevel,
    });
  }

  private carryBudget({ copyBytes, spillMs }: Omit<RungMove, 'reason'>): CarryBudget {
    const { ladder, layers, canSpill } = this.options;
    const { marginBytes, cellBytes } = ladder;
    const { scheduler, live } = this.links;
    const { promptTokenMicros } = scheduler.times;
    const bytesPerMs = live.spillBytesPerMs;
    const spill = { spillMs: canSpill ? spillMs : 0, marginBytes, cellBytes, layers, bytesPerMs, promptTokenMicros };
    return { copyTokens: Math.floor(copyBytes / Math.max(1, cellBytes)), ...spillBudget(spill) };
  }

  private sendContext(move: Omit<RungMove, 'reason'>): void {
    const { rungs, cellBytes } = this.options.ladder;
    const { scheduler, batches, forwardBell } = this.links;
    const { rung } = move;
    const { sequences, cells } = rung === RUNG_NONE ? { sequences: 0, cells: 0 } : rungs[rung];
    const { copied, spilled, spilledTokens } =
      this.rung === RUNG_NONE ? NOBODY : scheduler.leaveContext(sequences, cells, this.carryBudget(move));
    const keep = [...copied, ...spilled];
    const length = CONTEXT_HEADER_WORDS + keep.length * KEPT_WORDS;
    const at = batches.reserve(CONTEXT_RECORD_TYPE, length);
    if (at < 0) throw new Error('the batch ring is full although nothing is in flight');
    const words = batches.payloadWords;
    words[at + CONTEXT_HEADER.epoch] = this.epoch + 1;
    words[at + CONTEXT_HEADER.rung] = rung;
    words[at + CONTEXT_HEADER.keepCount] = keep.length;
    words[at + CONTEXT_HEADER.copyCount] = copied.length;
    words[at + CONTEXT_HEADER.spillMs] = Math.ceil(move.spillMs);
    words[at + CONTEXT_HEADER.cacheMib] = Math.floor(move.cacheBytes / MIB);
    words[at + CONTEXT_HEADER.spillMib] = Math.ceil((spilledTokens * cellBytes) / MIB);
    keep.forEach(({ from, to }, i) => {
      words[at + CONTEXT_HEADER_WORDS + i * KEPT_WORDS] = from;
      words[at + CONTEXT_HEADER_WORDS + i * KEPT_WORDS + 1] = to;
    });
    batches.commit();
    this.isMoving = true;
    this.sentAtMs = performance.now();
    forwardBell.ring();
  }

  /** Sequences of the context that stands, and how many of them may run. */
  private get streams(): { sequences: number; runningCap: number } {
    const { limits, ladder, runningCap } = this.options;
    const sequences = this.rung === RUNG_NONE ? limits.sequences : ladder.rungs[this.rung].sequences;
    return { sequences, runningCap: Math.min(runningCap, sequences) };
  }
}
