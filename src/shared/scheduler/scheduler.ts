import { OP_KIND } from '../batch-wire.js';
import { RESULT, RESULT_HEADER_WORDS, RESULT_SAMPLE, RESULT_SAMPLE_WORDS } from '../result-wire.js';
import { SAMPLE_FLAGS_DONE, STEP_STATUS } from '../step-output.js';
import { FINISH_CODE } from '../token-wire.js';
import { BatchPlan, type Restore } from './batch-plan.js';
import type { CarryBudget, CarryOver, SequenceMove } from './carry-over.js';
import { StepTimes } from './chunk-policy.js';
import { newCounters } from './counters.js';
import { DiskTier } from './disk-tier.js';
import { type DraftSource, LookupDrafts } from './draft-policy.js';
import { HostTier } from './host-tier.js';
import { IdleBackup } from './idle-backup.js';
import { assertLimits, type SchedulerLimits } from './limits.js';
import { Request, type RequestSpec } from './request.js';
import { RequestBook } from './request-book.js';
import { SequencePool } from './sequence-pool.js';
import { StepPlanner } from './step-planner.js';
import { cheapestVictim } from './victim.js';

/** A request whose steps failed this often in a row is given up. Chosen: one bad step is bad luck, three are its own doing. */
const FAILURES_MAX = 3;
/** How long running requests that cannot go on wait for memory. Chosen: pressure that lasts longer will last. */
const STALL_MAX_MS = 10_000;

/** A record in flight: what its result must be matched with. */
interface Step {
  stepId: number;
  epoch: number;
  requests: Request[];
  decodes: number;
  promptTokens: number;
  /** Of the host tier: what comes back to requests, and slots that are saved. */
  restores: Restore[];
  saves: number[];
  draftTokens: number;
}

/**
 * The rule (design.md 5): every request has computed tokens that chase its tokens; a step has one token budget, spent on running
 * requests first, then on waiting ones in priority and arrival order. Pure: no clock, no I/O, no threads.
 *
 * Records may be in flight while the next is planned. A token that a record in flight will sample is a placeholder; the engine fills
 * it, and drops it when the sequence has ended meanwhile. Results come back in the order of the records.
 */
export class Scheduler {
  readonly plan = new BatchPlan();
  readonly times = new StepTimes();
  readonly counters = newCounters();
  private readonly book = new RequestBook(this.plan);
  private readonly inFlight: Step[] = [];
  private readonly tier: HostTier;
  /** Prefixes in files; closed unless the disk worker tells of them. */
  readonly disk: DiskTier;
  private readonly backup: IdleBackup;
  private hasMoreToWrite = true;
  private pool: SequencePool;
  private planner: StepPlanner;
  private stepId = 0;
  private hasContext = true;
  private stalledSinceMs: number | null = null;
  /** Of the context that is being replaced: sequences that should stand in the next one, and where. */
  private leaving: SequenceMove[] = [];

  constructor(
    private limits: SchedulerLimits,
    private epoch: number,
    /** Where drafts come from; left out: the request's own text. */
    private readonly source: DraftSource | null = null,
  ) {
    assertLimits(limits);
    this.tier = new HostTier(limits, this.plan.tier, this.counters);
    this.disk = new DiskTier(this.tier, this.counters);
    this.backup = new IdleBackup(this.plan, this.tier, this.disk);
    this.pool = new SequencePool(limits, this.plan, this.counters, this.tier);
    this.planner = this.newPlanner();
  }

  get inFlightCount(): number {
    return this.inFlight.length;
  }

  /** Expected duration of the oldest step in flight, microseconds; 0: unknown. */
  get currentStepMicros(): number {
    const step = this.inFlight[0];
    return step ? this.times.estimate(step.decodes, step.promptTokens) : 0;
  }

  get runningCount(): number {
    return this.book.running.length;
  }

  get waitingCount(): number {
    return this.book.waiting.length;
  }

  /** Requests that are not over, and sequences that records in flight still write. */
  get activeCount(): number {
    return this.book.byId.size;
  }

  /** Running requests are there, nothing is in flight, and the last plan found nothing to do for any of them. */
  get isStalled(): boolean {
    return this.stalledSinceMs !== null;
  }

  get chunkTokens(): number {
    return this.planner.chunkTokens;
  }

  /** Cells in use, and how many of them only hold cached prefixes. */
  cellCounts(): { used: number; cached: number; total: number } {
    const { usedCells, totalCells } = this.pool.cells;
    return { used: usedCells, cached: usedCells - this.pool.busyCells(), total: totalCells };
  }

  submit(spec: RequestSpec): void {
    const request = new Request(spec);
    const refusal = this.book.refusal(request, this.limits.contextTokens, this.limits.waitingMax);
    this.book.add(request);
    if (refusal !== 0) this.finish(request, refusal);
  }

  cancel(id: number): void {
    const request = this.book.byId.get(id);
    if (request && request.phase !== 'over') this.finish(request, FINISH_CODE.cancelled);
  }

  /**
   * Plans one step into `plan`. Returns true when there is a record to send: work, or notices for main; the caller encodes and sends it
   * and calls `sent`. False: nothing to do until a result, a request or a cancel arrives.
   */
  schedule(nowMs: number): boolean {
    this.book.nowMs = nowMs;
    this.plan.begin(this.stepId, this.epoch);
    this.pool.nowMs = nowMs;
    this.pool.wantedCells = 0;
    this.pool.wantedSequences = 0;
    this.pool.isSpanShort = false;
    for (const request of this.book.overdue()) this.finish(request, FINISH_CODE.insufficientMemory);
    this.tier.shrink(nowMs);
    if (this.hasContext) {
      this.tier.costs.promptTokenMicros = this.times.promptTokenMicros;
      // Where nobody waits for a next token, a copy that is worth it may take its time.
      const isAlone = !this.book.running.some((request) => request.isDecoding);
      this.tier.costs.budgetMicros = isAlone ? Number.POSITIVE_INFINITY : this.limits.targetItlMicros;
      this.planner.fill(this.inFlight.length === 0);
      this.breakStall(nowMs);
      if (this.disk.isOpen) this.planWrites(nowMs);
    }
    return this.plan.hasWork || this.plan.hasNotices || this.plan.tier.words > 0;
  }

  private planWrites(nowMs: number): void {
    this.disk.writeNext(nowMs);
    this.hasMoreToWrite = this.backup.planNext(this.pool, this.activeCount > 0, nowMs);
  }

  /** A shutdown waits for prefixes to be written. */
  hurryWrites(): void {
    this.backup.isHurried = true;
  }

  /** Everything that is worth a file is in one, as far as the last plan saw. */
  get isWritten(): boolean {
    return !this.disk.isOpen || !this.hasContext || !this.hasMoreToWrite;
  }

  /** The planned record is on its way. */
  sent(): void {
    const { plan } = this;
    const requests = [...plan.requests, ...plan.restores.map(({ request }) => request)];
    for (const request of requests) request.pendingSteps++;
    this.inFlight.push({
      stepId: plan.stepId,
      epoch: plan.epoch,
      requests,
      decodes: plan.decodes,
      promptTokens: plan.promptTokens,
      restores: plan.restores.slice(),
      saves: plan.tier.saves(),
      draftTokens: plan.draftTokens,
    });
    this.stepId = (this.stepId + 1) | 0;
    plan.sent();
  }

  /** Takes a step's result (result-wire.ts), which lies in `words` from `at`. */
  applyResult(words: Int32Array, at: number): void {
    const step = this.inFlight.shift();
    const stepId = words[at + RESULT.stepId];
    if (!step || step.stepId !== stepId)
      throw new Error(`result of step ${stepId}, expected ${step?.stepId ?? 'none'}`);
    for (const request of step.requests) request.pendingSteps--;
    this.applyCopies(step, words, at);
    if (words[at + RESULT.status] === STEP_STATUS.ok) {
      const micros = words[at + RESULT.stepMicros] - words[at + RESULT.copyMicros];
      this.times.record(micros, step.decodes, step.promptTokens, step.draftTokens);
      const count = words[at + RESULT.sampleCount];
      for (let i = 0; i < count; i++) this.applySample(words, at + RESULT_HEADER_WORDS + i * RESULT_SAMPLE_WORDS);
      for (const request of step.requests) {
        request.failures = 0;
        if (request.draftCount > 0) this.endDrafts(request);
      }
    } else if (step.epoch === this.epoch && this.hasContext) {
      // A step that was told to give up has failed nobody.
      this.loseContext(words[at + RESULT.status] === STEP_STATUS.aborted ? null : step);
    }
    for (const request of step.requests) this.settle(request);
  }

  /** Lets plans ask for a larger context (`wantedCells`) instead of evicting and preempting; the caller knows whether one fits. */
  set canGrow(value: boolean) {
    this.pool.canGrow = value;
  }

  /** The last reading; plans before the first one take it that there is enough. */
  set headroomBytes(value: number) {
    this.pool.headroomBytes = value;
  }

  /** A larger context could be made if the host tier gave its memory back. */
  set tierHoldsGrowth(value: boolean) {
    this.pool.tierHoldsGrowth = value;
  }

  /** A reading of memory was taken. */
  readingTaken(): void {
    this.tier.readingTaken();
  }

  /** What the host tier may hold; what is above goes with the next record. */
  setHostPrefixBudget(bytes: number, nowMs: number): void {
    this.tier.setBudget(bytes, nowMs);
  }

  /** Memory is short: the host tier is emptied with the next record. */
  emptyHostTier(nowMs: number): void {
    this.tier.giveWay(nowMs);
  }

  /** What the host tier holds by its books, how much of that the last reading does not show, and what it may hold. */
  get hostPrefix(): { slots: number[]; heldBytes: number; freshBytes: number; budgetBytes: number } {
    const { slots, heldBytes, freshBytes, budgetBytes } = this.tier;
    return { slots, heldBytes, freshBytes, budgetBytes };
  }

  /** The same for a context with more sequences. */
  set canSpread(value: boolean) {
    this.pool.canSpread = value;
  }

  /** Cells that the last plan would have liked to have; 0: those there are will do. */
  get wantedCells(): number {
    return this.pool.wantedCells;
  }

  /** The same of sequences. */
  get wantedSequences(): number {
    return this.pool.wantedSequences;
  }

  /** The last plan would have liked another context. */
  get wantsContext(): boolean {
    return this.wantedCells > 0 || this.wantedSequences > 0;
  }

  /** Cells that the longest sequence takes, or will when its prompt is computed: of running requests, and of the one that is admitted next. */
  get longestCells(): number {
    const [next] = this.book.waiting.head(1);
    return [...this.book.running, ...(next ? [next] : [])].reduce(
      (most, { tokenCount }) => Math.max(most, tokenCount + 1),
      this.pool.longestBusyCells(),
    );
  }

  /** False: none was there, or a step has failed and the one made instead has not been told of. */
  get isOnContext(): boolean {
    return this.hasContext;
  }

  /**
   * The context is about to be replaced by one of `sequences` sequences and `cells` cells: nothing is in flight. Returns the sequences to carry
   * over, and the tokens of those that go through a file.
   */
  leaveContext(sequences: number, cells: number, budget: CarryBudget): CarryOver & { spilledTokens: number } {
    if (this.inFlight.length > 0) throw new Error('a context is left while steps are in flight');
    this.hasContext = false;
    this.tier.holdBack(this.pool.nowMs);
    // What had to be removed from the old context is simply not carried over.
    this.plan.dropOps();
    const kept = this.pool.sequencesToKeep(sequences, cells, budget);
    this.leaving = [...kept.copied, ...kept.spilled];
    return { ...kept, spilledTokens: this.pool.lengthsOf(kept.spilled) };
  }

  /**
   * The new context stands, with the sequences that were carried over, by their numbers in the old one; requests of the others are computed
   * again.
   */
  enterContext(limits: SchedulerLimits, epoch: number, carried: readonly number[]): void {
    assertLimits(limits);
    const before = this.replacePool(limits, epoch);
    const moves = this.leaving.filter(({ from }) => carried.includes(from));
    this.leaving = [];
    this.pool.adopt(before, moves);
    for (const request of [...this.book.running].reverse()) {
      const move = moves.find(({ from }) => from === request.sequence);
      if (!move) {
        this.book.requeue(request);
        continue;
      }
      request.sequence = move.to;
      request.needsStart = true;
    }
    this.hasContext = true;
  }

  /** No context stands, and none will for a while: what ran waits in the queue, where its time is bounded. */
  putAway(): void {
    this.loseContext(null);
    this.tier.clear();
  }

  /** A new context stands, empty: everything that had cells is computed again. */
  applyContext(limits: SchedulerLimits, epoch: number): void {
    assertLimits(limits);
    if (this.hasContext) this.loseContext(null);
    this.replacePool(limits, epoch);
    this.hasContext = true;
  }

  private replacePool(limits: SchedulerLimits, epoch: number): SequencePool {
    const before = this.pool;
    this.limits = limits;
    this.epoch = epoch;
    this.pool = new SequencePool(limits, this.plan, this.counters, this.tier);
    this.pool.nowMs = before.nowMs;
    this.pool.headroomBytes = before.headroomBytes;
    this.planner = this.newPlanner();
    return before;
  }

  private newPlanner(): StepPlanner {
    const source = this.source ?? new LookupDrafts(this.times);
    return new StepPlanner(this.limits, this.plan, this.book, this.pool, this.times, this.counters, source, this.disk);
  }

  /** What a step did for the host tier: before its samples, because a request may be over, and its sequence must be as it is. */
  private applyCopies({ saves, restores }: Step, words: Int32Array, at: number): void {
    if (saves.length === 0 && restores.length === 0) return;
    const isDone = words[at + RESULT.status] === STEP_STATUS.ok;
    const failedAt = at + RESULT_HEADER_WORDS + words[at + RESULT.sampleCount] * RESULT_SAMPLE_WORDS;
    const failed = words.subarray(failedAt, failedAt + words[at + RESULT.failedCopies]);
    const tokens = saves.reduce((sum, slot) => sum + this.tier.tokensOf(slot), 0);
    const restoredTokens = restores.reduce((sum, { count }) => sum + count, 0);
    const copies = saves.length + restores.length;
    if (failed.length === 0) this.tier.costs.copied(copies, tokens + restoredTokens, words[at + RESULT.copyMicros]);
    for (const slot of saves) this.tier.saveEnded(slot, isDone && !failed.includes(slot));
    for (const restore of restores) this.planner.restored(restore, isDone && !failed.includes(restore.slot));
  }

  private applySample(words: Int32Array, at: number): void {
    const request = this.book.byId.get(words[at + RESULT_SAMPLE.request]);
    // A request that was preempted or is stopping still gets the tokens that were in flight: its cells hold them.
    if (!request) throw new Error(`a token for request ${words[at + RESULT_SAMPLE.request]}, which is not known`);
    if (request.tokenCount === request.knownCount) request.tokenCount++;
    request.append(words[at + RESULT_SAMPLE.token]);
    if (request.sequence >= 0) this.pool.table.refresh(this.pool.sequenceOf(request));
    if (words[at + RESULT_SAMPLE.flags] & SAMPLE_FLAGS_DONE) {
      request.ended = true;
      if (request.phase !== 'over') this.finish(request, 0);
    }
  }

  private endDrafts(request: Request): void {
    this.counters.draftedTokens += request.draftCount;
    this.counters.acceptedDraftTokens += request.endDrafts();
    // One that has ended has given its sequence away already, cut to what it needs.
    if (request.sequence >= 0) this.pool.cells.truncate(request.sequence, request.computedCount);
  }

  private finish(request: Request, code: number): void {
    this.book.end(request, code);
    this.settle(request);
  }

  /** Turns the sequence of a request that is over into a cached prefix, once nothing in flight writes to it any more. */
  private settle(request: Request): void {
    if (request.phase !== 'over' || !this.book.byId.has(request.id)) return;
    // Placeholders behind an end are dropped by the engine; any other record in flight will still write to the sequence.
    if (request.pendingSteps > 0 && !request.ended) return;
    this.book.byId.delete(request.id);
    if (request.sequence < 0) return;
    const count = request.ended ? request.knownCount - 1 : Math.min(request.computedCount, request.knownCount);
    if (!request.ended) this.plan.addOp(OP_KIND.stop, request.sequence, -1, 0, -1);
    this.pool.retire(request, count);
    request.sequence = -1;
  }

  /**
   * Running requests none of which can go on, with nothing in flight that could help: each needs a larger context, and there is no
   * headroom for one. They wait for a while; then the cheapest gives up, so that the server never wedges.
   */
  private breakStall(nowMs: number): void {
    // A wish is no hope: the policy that grants it must know that nothing goes on without it.
    const isStalled = !this.plan.hasWork && this.inFlight.length === 0 && this.book.running.length > 0;
    if (!isStalled) this.stalledSinceMs = null;
    else if (this.stalledSinceMs === null) this.stalledSinceMs = nowMs;
    else if (nowMs - this.stalledSinceMs > STALL_MAX_MS) {
      const victim = cheapestVictim(this.book.running, []);
      if (victim) this.finish(victim, FINISH_CODE.insufficientMemory);
      this.stalledSinceMs = null;
    }
  }

  /** The engine failed: no cell survives. Latest admitted go back first, so that the queue keeps their order. */
  private loseContext(failed: Step | null): void {
    this.hasContext = false;
    for (const request of failed?.requests ?? []) request.failures++;
    for (const request of [...this.book.running].reverse()) {
      if (request.failures >= FAILURES_MAX) this.finish(request, FINISH_CODE.engineFailed);
      else this.book.requeue(request);
    }
    for (const request of this.book.byId.values()) {
      if (request.phase === 'over') request.sequence = -1;
    }
    this.plan.dropOps();
  }
}
