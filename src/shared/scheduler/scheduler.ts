import { OP_KIND } from '../batch-wire.js';
import { RESULT, RESULT_HEADER_WORDS, RESULT_SAMPLE, RESULT_SAMPLE_WORDS } from '../result-wire.js';
import { SAMPLE_FLAGS_DONE, STEP_STATUS } from '../step-output.js';
import { FINISH_CODE, NOTICE_KIND } from '../token-wire.js';
import { BatchPlan, startWordsOf } from './batch-plan.js';
import { StepTimes } from './chunk-policy.js';
import type { SchedulerLimits } from './limits.js';
import { splitPrefills } from './prefill-order.js';
import { Request, type RequestSpec } from './request.js';
import { SequencePool } from './sequence-pool.js';
import type { PrefixMatch } from './sequence-table.js';
import { cheapestVictim } from './victim.js';
import { WaitingQueue } from './waiting-queue.js';

/** A request whose steps failed this often in a row is given up. Chosen: one bad step is bad luck, three are its own doing. */
const FAILURES_MAX = 3;
/** How long running requests that cannot go on wait for memory. Chosen: pressure that lasts longer will last. */
const STALL_MAX_MS = 10_000;
/** Waiting requests that one plan looks at behind those that wait for another's prefill. Chosen: bounds the plan's time. */
const ADMISSION_SCAN_MAX = 64;
/** Free cells that admission leaves to each running request, so that it does not preempt at once. Chosen. */
const GROWTH_RESERVE_TOKENS = 16;

/** How often the queue is searched for requests that waited too long. Chosen: their bounds are seconds. */
const REFUSAL_INTERVAL_MS = 50;

/** A record in flight: what its result must be matched with. */
interface Step {
  stepId: number;
  epoch: number;
  requests: Request[];
  decodes: number;
  promptTokens: number;
}

export interface SchedulerCounters {
  evictions: number;
  evictedTokens: number;
  preemptions: number;
  prefixHitTokens: number;
  prefixLookupTokens: number;
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
  private readonly waiting = new WaitingQueue();
  /** In order of admission. */
  private running: Request[] = [];
  private readonly byId = new Map<number, Request>();
  private readonly inFlight: Step[] = [];
  private pool: SequencePool;
  private preemptions = 0;
  private prefixHitTokens = 0;
  private prefixLookupTokens = 0;
  /** Of the contexts before this one. */
  private earlierEvictions = 0;
  private earlierEvictedTokens = 0;
  private stepId = 0;
  private order = 0;
  private hasContext = true;
  private lastChunkTokens = 0;
  private nextRefusalMs = 0;
  private stalledSinceMs: number | null = null;

  constructor(
    private limits: SchedulerLimits,
    private epoch: number,
  ) {
    assertLimits(limits);
    this.pool = new SequencePool(limits, this.plan);
  }

  get counters(): SchedulerCounters {
    return {
      evictions: this.earlierEvictions + this.pool.evictions,
      evictedTokens: this.earlierEvictedTokens + this.pool.evictedTokens,
      preemptions: this.preemptions,
      prefixHitTokens: this.prefixHitTokens,
      prefixLookupTokens: this.prefixLookupTokens,
    };
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
    return this.running.length;
  }

  get waitingCount(): number {
    return this.waiting.length;
  }

  /** Requests that are not over, and sequences that records in flight still write. */
  get activeCount(): number {
    return this.byId.size;
  }

  get chunkTokens(): number {
    return this.lastChunkTokens;
  }

  /** Cells in use, and how many of them only hold cached prefixes. */
  cellCounts(): { used: number; cached: number; total: number } {
    const { usedCells, totalCells } = this.pool.cells;
    return { used: usedCells, cached: usedCells - this.pool.busyCells(), total: totalCells };
  }

  submit(spec: RequestSpec): void {
    if (this.byId.has(spec.id)) throw new Error(`request ${spec.id} was submitted before`);
    const request = new Request(spec);
    this.byId.set(spec.id, request);
    if (spec.promptTokens.length + 1 > this.limits.contextTokens) this.finish(request, FINISH_CODE.neverFits);
    else if (this.waiting.length >= this.limits.waitingMax) this.finish(request, FINISH_CODE.queueFull);
    else this.waiting.push(request);
  }

  cancel(id: number): void {
    const request = this.byId.get(id);
    if (request && request.phase !== 'over') this.finish(request, FINISH_CODE.cancelled);
  }

  /**
   * Plans one step into `plan`. Returns true when there is a record to send: work, or notices for main; the caller encodes and sends it
   * and calls `sent`. False: nothing to do until a result, a request or a cancel arrives.
   */
  schedule(nowMs: number): boolean {
    this.plan.begin(this.stepId, this.epoch);
    this.pool.wantedCells = 0;
    for (const request of this.running) request.sharableCount = request.computedCount;
    this.refuseOverdue(nowMs);
    if (this.hasContext) {
      this.planDecodes();
      this.planPrefills();
      this.breakStall(nowMs);
    }
    return this.plan.hasWork || this.plan.hasNotices;
  }

  /** The planned record is on its way. */
  sent(): void {
    const { plan } = this;
    for (const request of plan.requests) request.pendingSteps++;
    this.inFlight.push({
      stepId: plan.stepId,
      epoch: plan.epoch,
      requests: plan.requests.slice(),
      decodes: plan.decodes,
      promptTokens: plan.promptTokens,
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
    if (words[at + RESULT.status] === STEP_STATUS.ok) {
      this.times.record(words[at + RESULT.stepMicros], step.decodes, step.promptTokens);
      const count = words[at + RESULT.sampleCount];
      for (let i = 0; i < count; i++) this.applySample(words, at + RESULT_HEADER_WORDS + i * RESULT_SAMPLE_WORDS);
      for (const request of step.requests) request.failures = 0;
    } else if (step.epoch === this.epoch && this.hasContext) {
      this.loseContext(step);
    }
    for (const request of step.requests) this.settle(request);
  }

  /** Lets plans ask for a larger context (`wantedCells`) instead of evicting and preempting; the caller knows whether one fits. */
  set canGrow(value: boolean) {
    this.pool.canGrow = value;
  }

  /** Cells that the last plan would have liked to have; 0: those there are will do. */
  get wantedCells(): number {
    return this.pool.wantedCells;
  }

  /** Cells that running requests hold, each counted by itself: what the smallest context for them needs. */
  get busyCells(): number {
    const lengths = this.running.map((request) => this.pool.cells.length(Math.max(request.sequence, 0)));
    return this.limits.layout === 'shared' ? lengths.reduce((a, b) => a + b, 0) : Math.max(0, ...lengths);
  }

  /**
   * The context is about to be replaced by one of `cells` cells: nothing is in flight. Returns the sequences to carry over, of at most
   * `budgetTokens` together.
   */
  leaveContext(cells: number, budgetTokens: number): number[] {
    if (this.inFlight.length > 0) throw new Error('a context is left while steps are in flight');
    this.hasContext = false;
    // What had to be removed from the old context is simply not carried over.
    this.plan.dropOps();
    return this.pool.sequencesToKeep(cells, budgetTokens);
  }

  /** The new context stands, with the sequences that were carried over; requests of the others are computed again. */
  enterContext(limits: SchedulerLimits, epoch: number, carried: readonly number[]): void {
    assertLimits(limits);
    const before = this.replacePool(limits, epoch);
    this.pool.adopt(before, carried);
    for (const request of [...this.running].reverse()) {
      if (carried.includes(request.sequence)) request.needsStart = true;
      else this.requeue(request);
    }
    this.hasContext = true;
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
    this.earlierEvictions += before.evictions;
    this.earlierEvictedTokens += before.evictedTokens;
    this.pool = new SequencePool(limits, this.plan);
    return before;
  }

  private applySample(words: Int32Array, at: number): void {
    const request = this.byId.get(words[at + RESULT_SAMPLE.request]);
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

  /** Ends a request. `code` 0: its last token says so already; main needs no notice. */
  private finish(request: Request, code: number): void {
    if (request.phase === 'running') this.running.splice(this.running.indexOf(request), 1);
    else if (request.phase === 'waiting') this.waiting.remove(request);
    request.phase = 'over';
    if (code !== 0) this.plan.addNotice(request.id, NOTICE_KIND.finished, code, 0);
    this.settle(request);
  }

  /** Turns the sequence of a request that is over into a cached prefix, once nothing in flight writes to it any more. */
  private settle(request: Request): void {
    if (request.phase !== 'over' || !this.byId.has(request.id)) return;
    // Placeholders behind an end are dropped by the engine; any other record in flight will still write to the sequence.
    if (request.pendingSteps > 0 && !request.ended) return;
    this.byId.delete(request.id);
    if (request.sequence < 0) return;
    const count = request.ended ? request.knownCount - 1 : Math.min(request.computedCount, request.knownCount);
    if (!request.ended) this.plan.addOp(OP_KIND.stop, request.sequence, -1, 0, -1);
    this.pool.retire(request, count);
    request.sequence = -1;
  }

  private refuseOverdue(nowMs: number): void {
    if (this.waiting.length === 0 || nowMs < this.nextRefusalMs) return;
    this.nextRefusalMs = nowMs + REFUSAL_INTERVAL_MS;
    for (const request of [...this.waiting]) {
      // One that has run already is never refused for waiting: its client has tokens of it.
      const waitedMs = nowMs - request.queuedAtMs;
      if (!request.announced && waitedMs > request.spec.maxWaitMs) this.finish(request, FINISH_CODE.insufficientMemory);
    }
  }

  /**
   * Running requests none of which can go on, with nothing in flight that could help: each needs a larger context, and there is no
   * headroom for one. They wait for a while; then the cheapest gives up, so that the server never wedges.
   */
  private breakStall(nowMs: number): void {
    const isStalled =
      !this.plan.hasWork && this.inFlight.length === 0 && this.running.length > 0 && this.wantedCells === 0;
    if (!isStalled) this.stalledSinceMs = null;
    else if (this.stalledSinceMs === null) this.stalledSinceMs = nowMs;
    else if (nowMs - this.stalledSinceMs > STALL_MAX_MS) {
      const victim = cheapestVictim(this.running, []);
      if (victim) this.finish(victim, FINISH_CODE.insufficientMemory);
      this.stalledSinceMs = null;
    }
  }

  private planDecodes(): void {
    for (const request of [...this.running]) {
      if (request.phase !== 'running' || !request.isDecoding) continue;
      if (request.plannedOutputs >= request.spec.maxTokens) continue;
      if (this.plan.decodes >= this.limits.batchTokens) break;
      if (request.needsStart && !this.hasRoomForStart(request)) continue;
      if (!this.makeRoom(request, 1)) continue;
      this.addSegment(request, 1);
      this.plan.decodes++;
    }
  }

  /**
   * Prompts that end within this step first, then new requests, then the long prompts, longest unserved first. New requests leave half
   * of the budget to long prompts that run already: neither can starve the other.
   */
  private planPrefills(): void {
    const { limits, plan } = this;
    const chunk = this.times.chunkTokens(plan.decodes, limits.chunkTokens, limits.targetItlMicros);
    let budget = Math.min(chunk, limits.batchTokens - plan.decodes);
    this.lastChunkTokens = chunk;
    const { short, long } = splitPrefills(this.running, chunk);
    for (const request of short) budget -= this.planChunk(request, budget);
    const keptForLong = long.length > 0 ? budget >> 1 : 0;
    budget = this.admitWaiting(budget - keptForLong) + keptForLong;
    for (const request of long) budget -= this.planChunk(request, budget);
    if (!plan.hasWork && this.inFlight.length === 0 && this.running.length > 1) this.preemptCheapest();
  }

  /**
   * In order of the queue. A request that waits for a prefix which another is computing lets those behind it pass; one for which there
   * is no room does not, or it would starve. Returns what is left of the budget.
   */
  private admitWaiting(budget: number): number {
    if (budget <= 0 || this.waiting.length === 0) return budget;
    for (const request of this.waiting.head(ADMISSION_SCAN_MAX)) {
      if (budget <= 0) break;
      const verdict = this.admit(request);
      if (verdict === 'no room') break;
      if (verdict === 'admitted') budget -= this.planChunk(request, budget);
    }
    return budget;
  }

  /** Plans up to `budget` prompt tokens of a running request; returns how many. */
  private planChunk(request: Request, budget: number): number {
    let count = Math.min(request.remaining, budget, request.knownCount - request.computedCount);
    const free = this.pool.cells.freeFor(request.sequence);
    if (free < count) {
      this.pool.evictUntil(request.sequence, count);
      count = Math.min(count, this.pool.cells.freeFor(request.sequence));
    }
    if (count <= 0 || (request.needsStart && !this.hasRoomForStart(request))) return 0;
    request.lastServed = ++this.order;
    this.addSegment(request, count);
    this.plan.promptTokens += count;
    if (
      request.remaining > 0 &&
      request.knownCount === request.promptCount &&
      request.computedCount < request.promptCount
    ) {
      this.plan.addNotice(request.id, NOTICE_KIND.progress, request.computedCount, request.promptCount);
    }
    return count;
  }

  private addSegment(request: Request, count: number): void {
    if (request.needsStart) this.plan.addStart(request);
    request.needsStart = false;
    const reachesEnd = request.computedCount + count === request.tokenCount;
    this.plan.addSegment(request, count, reachesEnd);
    this.pool.cells.append(request.sequence, count);
    request.computedCount += count;
    if (reachesEnd) request.tokenCount++;
  }

  /** Gives a waiting request a sequence, with the longest cached prefix in it. */
  private admit(request: Request): 'admitted' | 'deferred' | 'no room' {
    if (this.running.length >= this.limits.runningCap) return 'no room';
    if (request.pendingSteps > 0) return 'deferred';
    if (this.plan.startCount > 0 && this.plan.startWords + startWordsOf(request) > this.limits.startWords)
      return 'no room';
    const match = this.pool.findPrefix(request);
    if (this.pool.isPrefixComing(request, match, this.running)) return 'deferred';
    if (!this.fits(request, match)) return 'no room';
    const home = this.pool.chooseHome(match);
    if (!home) return 'no room';
    const cached = this.pool.occupy(home, match, request);
    this.waiting.remove(request);
    request.admit(home.id, cached, ++this.order);
    this.running.push(request);
    this.announce(request, cached);
    return 'admitted';
  }

  /** One start of any size fits into a record; more only as far as there is room. */
  private hasRoomForStart(request: Request): boolean {
    return this.plan.startCount === 0 || this.plan.startWords + startWordsOf(request) <= this.limits.startWords;
  }

  /** Tells main, the first time, that the request has left the queue. */
  private announce(request: Request, cached: number): void {
    if (request.announced) return;
    request.announced = true;
    this.prefixHitTokens += cached;
    this.prefixLookupTokens += request.promptCount;
    this.plan.addNotice(request.id, NOTICE_KIND.started, cached, request.promptCount);
  }

  /** The prompt, and what running prompts still have to compute, fit beside what running requests hold; else a larger pool is asked for. */
  private fits(request: Request, match: PrefixMatch | null): boolean {
    const { cells } = this.pool;
    if (this.limits.layout === 'private') {
      if (request.tokenCount < cells.cells) return true;
      this.pool.wantCells(request.tokenCount + 1 + GROWTH_RESERVE_TOKENS);
      return false;
    }
    const busy = this.pool.busyCells(match?.sequence);
    const promised = this.running.reduce(
      (sum, other) => sum + Math.max(0, other.remaining - 1) + GROWTH_RESERVE_TOKENS,
      0,
    );
    const needed = busy + promised + (request.tokenCount - (match?.count ?? 0)) + 1;
    if (needed <= cells.totalCells) return true;
    if (this.pool.wantCells(needed)) return false;
    // Alone it fits whatever the books say: contextTokens is never more than the largest pool.
    return this.running.length === 0 && request.tokenCount + 1 <= cells.totalCells;
  }

  /** Room for a running request's next token: from idle prefixes, then from victims. False: it was itself the cheapest victim. */
  private makeRoom(request: Request, count: number): boolean {
    this.pool.evictUntil(request.sequence, count);
    while (this.pool.cells.freeFor(request.sequence) < count) {
      // A larger context comes; a full private stream cannot be helped by anyone's cells.
      if (this.pool.wantedCells > 0 || this.limits.layout === 'private') return false;
      const victim = cheapestVictim(this.running, this.plan.requests) ?? request;
      this.preempt(victim);
      if (victim === request) return false;
    }
    return true;
  }

  private preemptCheapest(): void {
    const victim = cheapestVictim(this.running, []);
    if (victim) this.preempt(victim);
  }

  private preempt(victim: Request): void {
    this.preemptions++;
    this.pool.expel(victim);
    this.requeue(victim);
  }

  private requeue(request: Request): void {
    this.running.splice(this.running.indexOf(request), 1);
    request.phase = 'waiting';
    request.forgetCells();
    this.waiting.pushFront(request);
  }

  /** The engine failed: no cell survives. Latest admitted go back first, so that the queue keeps their order. */
  private loseContext(failed: Step | null): void {
    this.hasContext = false;
    for (const request of failed?.requests ?? []) request.failures++;
    for (const request of [...this.running].reverse()) {
      if (request.failures >= FAILURES_MAX) this.finish(request, FINISH_CODE.engineFailed);
      else this.requeue(request);
    }
    for (const request of this.byId.values()) {
      if (request.phase === 'over') request.sequence = -1;
    }
    this.plan.dropOps();
  }
}

function assertLimits(limits: SchedulerLimits): void {
  const ok =
    limits.runningCap >= 1 &&
    limits.runningCap <= limits.sequences &&
    limits.chunkTokens >= 1 &&
    limits.batchTokens >= limits.runningCap &&
    limits.contextTokens >= 2 &&
    limits.cells <= limits.cellsMax &&
    limits.contextTokens <= limits.cellsMax &&
    limits.waitingMax >= 1;
  if (!ok) throw new RangeError(`scheduler limits contradict each other: ${JSON.stringify(limits)}`);
}
