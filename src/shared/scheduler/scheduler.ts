import { OP_KIND } from '../batch-wire.js';
import { RESULT, RESULT_HEADER_WORDS, RESULT_SAMPLE, RESULT_SAMPLE_WORDS } from '../result-wire.js';
import { SAMPLE_FLAGS_DONE, STEP_STATUS } from '../step-output.js';
import { FINISH_CODE, NOTICE_KIND } from '../token-wire.js';
import { BatchPlan } from './batch-plan.js';
import { CellAccounting } from './cell-accounting.js';
import { StepTimes } from './chunk-policy.js';
import type { SchedulerLimits } from './limits.js';
import { orderPrefills } from './prefill-order.js';
import { Request, type RequestSpec } from './request.js';
import { type PrefixMatch, type Sequence, SequenceTable } from './sequence-table.js';
import { WaitingQueue } from './waiting-queue.js';

/** A request whose steps failed this often in a row is given up. Chosen: one bad step is bad luck, three are its own doing. */
const FAILURES_MAX = 3;
/** A shorter prefix is not worth a copy of its own. Chosen: prefill does this many tokens in the time of one decode step. */
const COPY_MIN_TOKENS = 32;
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
  readonly counters: SchedulerCounters = {
    evictions: 0,
    evictedTokens: 0,
    preemptions: 0,
    prefixHitTokens: 0,
    prefixLookupTokens: 0,
  };
  private readonly waiting = new WaitingQueue();
  /** In order of admission. */
  private running: Request[] = [];
  private readonly byId = new Map<number, Request>();
  private readonly inFlight: Step[] = [];
  private table: SequenceTable;
  private cells: CellAccounting;
  private stepId = 0;
  private order = 0;
  private hasContext = true;
  private lastChunkTokens = 0;
  private nextRefusalMs = 0;

  constructor(
    private limits: SchedulerLimits,
    private epoch: number,
  ) {
    this.table = new SequenceTable(limits.sequences);
    this.cells = new CellAccounting(limits.layout, limits.cells, limits.sequences);
    assertLimits(limits);
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
    const busy = this.cells.countHeld((sequence) => this.table.all[sequence].state === 'busy');
    return { used: this.cells.usedCells, cached: this.cells.usedCells - busy, total: this.cells.totalCells };
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
    for (const request of this.running) request.sharableCount = request.computedCount;
    this.refuseOverdue(nowMs);
    if (this.hasContext) {
      this.planDecodes();
      this.planPrefills();
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

  /** A new context stands, empty: everything that had cells is computed again. */
  applyContext(limits: SchedulerLimits, epoch: number): void {
    assertLimits(limits);
    if (this.hasContext) this.loseContext(null);
    this.limits = limits;
    this.epoch = epoch;
    this.table = new SequenceTable(limits.sequences);
    this.cells = new CellAccounting(limits.layout, limits.cells, limits.sequences);
    this.hasContext = true;
  }

  private applySample(words: Int32Array, at: number): void {
    const request = this.byId.get(words[at + RESULT_SAMPLE.request]);
    // A request that was preempted or is stopping still gets the tokens that were in flight: its cells hold them.
    if (!request) throw new Error(`a token for request ${words[at + RESULT_SAMPLE.request]}, which is not known`);
    if (request.tokenCount === request.knownCount) request.tokenCount++;
    request.append(words[at + RESULT_SAMPLE.token]);
    if (request.sequence >= 0) this.table.refresh(this.table.all[request.sequence]);
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
    const sequence = this.table.all[request.sequence];
    const count = request.ended ? request.knownCount - 1 : Math.min(request.computedCount, request.knownCount);
    this.cells.truncate(sequence.id, count);
    if (!request.ended) this.plan.addOp(OP_KIND.stop, sequence.id, -1, 0, -1);
    if (this.limits.prefixCache && request.spec.usesPrefixCache && count > 0) {
      this.table.refresh(sequence);
      this.table.makeIdle(sequence, count);
    } else {
      this.release(sequence, OP_KIND.remove);
    }
    request.sequence = -1;
  }

  private release(sequence: Sequence, kind: number): void {
    this.plan.addOp(kind, sequence.id, -1, 0, -1);
    this.cells.truncate(sequence.id, 0);
    this.table.makeFree(sequence);
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

  private planDecodes(): void {
    for (const request of [...this.running]) {
      if (request.phase !== 'running' || !request.isDecoding) continue;
      if (request.plannedOutputs >= request.spec.maxTokens) continue;
      if (this.plan.decodes >= this.limits.batchTokens) break;
      if (!this.makeRoom(request, 1)) continue;
      this.addSegment(request, 1);
      this.plan.decodes++;
    }
  }

  private planPrefills(): void {
    const { limits, plan } = this;
    const chunk = this.times.chunkTokens(plan.decodes, limits.chunkTokens, limits.targetItlMicros);
    let budget = Math.min(chunk, limits.batchTokens - plan.decodes);
    this.lastChunkTokens = chunk;
    const prefilling = this.running.filter((request) => !request.isDecoding && request.remaining > 0);
    for (const request of orderPrefills(prefilling, chunk)) {
      if (budget <= 0) return;
      budget -= this.planChunk(request, budget);
    }
    while (budget > 0) {
      const request = this.waiting.first;
      if (!request || !this.admit(request)) break;
      budget -= this.planChunk(request, budget);
    }
    if (!plan.hasWork && this.inFlight.length === 0 && this.running.length > 1) this.preempt(this.cheapestVictim(null));
  }

  /** Plans up to `budget` prompt tokens of a running request; returns how many. */
  private planChunk(request: Request, budget: number): number {
    let count = Math.min(request.remaining, budget, request.knownCount - request.computedCount);
    const free = this.cells.freeFor(request.sequence);
    if (free < count) {
      this.evictUntil(request.sequence, count);
      count = Math.min(count, this.cells.freeFor(request.sequence));
    }
    if (count <= 0) return 0;
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
    const reachesEnd = request.computedCount + count === request.tokenCount;
    this.plan.addSegment(request, count, reachesEnd);
    this.cells.append(request.sequence, count);
    request.computedCount += count;
    if (reachesEnd) request.tokenCount++;
  }

  /** Gives a waiting request a sequence, with the longest cached prefix in it. False: not now. */
  private admit(request: Request): boolean {
    if (request.pendingSteps > 0 || this.running.length >= this.limits.runningCap) return false;
    const match = this.findPrefix(request);
    if (!this.fits(request, match)) return false;
    const home = this.chooseHome(match);
    if (!home) return false;
    const cached = this.occupy(home, match, request);
    this.waiting.remove(request);
    request.phase = 'running';
    request.sequence = home.id;
    request.computedCount = cached;
    request.sharableCount = cached;
    request.admittedOrder = ++this.order;
    this.table.assign(home, request);
    this.running.push(request);
    this.plan.addStart(request);
    if (!request.announced) {
      request.announced = true;
      request.cachedTokens = cached;
      this.counters.prefixHitTokens += cached;
      this.counters.prefixLookupTokens += request.promptCount;
      this.plan.addNotice(request.id, NOTICE_KIND.started, cached, request.promptCount);
    }
    return true;
  }

  private findPrefix(request: Request): PrefixMatch | null {
    if (!this.limits.prefixCache || !request.spec.usesPrefixCache) return null;
    return this.table.longestPrefix(
      request.tokens,
      request.knownCount - 1,
      request.spec.cacheSalt,
      this.limits.canTrim,
    );
  }

  /** Shared pool: the prompt, and what running prompts still have to compute, fit beside what running requests hold. */
  private fits(request: Request, match: PrefixMatch | null): boolean {
    if (this.limits.layout === 'private' || this.running.length === 0) return true;
    const busy = this.cells.countHeld((id) => this.table.all[id].state === 'busy' || id === match?.sequence.id);
    const promised = this.running.reduce(
      (sum, other) => sum + Math.max(0, other.remaining - 1) + GROWTH_RESERVE_TOKENS,
      0,
    );
    return busy + promised + (request.tokenCount - (match?.count ?? 0)) + 1 <= this.cells.totalCells;
  }

  /**
   * The sequence that a request will live in: the matched one, when it is idle and little of it would be lost; else a free one; else
   * the idle one that was used longest ago; the matched one as the last resort.
   */
  private chooseHome(match: PrefixMatch | null): Sequence | null {
    const idleMatch = match?.sequence.state === 'idle' ? match.sequence : null;
    if (match && idleMatch && (!this.limits.canTrim || match.count * 2 >= idleMatch.cachedCount)) return idleMatch;
    return this.table.firstFree() ?? this.table.leastRecentIdle(idleMatch) ?? idleMatch;
  }

  /** Makes `home` hold the matched prefix and nothing else; returns the prefix's length. */
  private occupy(home: Sequence, match: PrefixMatch | null, request: Request): number {
    if (match && match.sequence === home) {
      if (match.count < home.cachedCount) this.plan.addOp(OP_KIND.remove, home.id, -1, match.count, -1);
      this.cells.truncate(home.id, match.count);
      return match.count;
    }
    if (home.state === 'idle') this.evict(home);
    if (!match || !this.limits.canTrim || match.count < COPY_MIN_TOKENS) return 0;
    if (this.cells.freeFor(home.id) < match.count && this.limits.layout === 'private') return 0;
    this.copyPrefix(match, home);
    if (request.spec.cacheSalt !== match.sequence.cacheSalt) throw new Error('a prefix crossed its salt');
    return match.count;
  }

  private copyPrefix(match: PrefixMatch, home: Sequence): void {
    if (this.limits.layout === 'shared') {
      this.plan.addOp(OP_KIND.copy, match.sequence.id, home.id, 0, match.count);
    } else {
      // A private stream is copied whole; what lies behind the match goes at once.
      this.plan.addOp(OP_KIND.copy, match.sequence.id, home.id, 0, -1);
      this.plan.addOp(OP_KIND.remove, home.id, -1, match.count, -1);
    }
    this.cells.copyPrefix(match.sequence.id, home.id, match.count);
  }

  private evict(sequence: Sequence): void {
    this.counters.evictions++;
    this.counters.evictedTokens += this.cells.ownCells(sequence.id);
    this.release(sequence, OP_KIND.evict);
  }

  /** Evicts idle prefixes, oldest first, until `sequence` can take `count` cells or none is left. */
  private evictUntil(sequence: number, count: number): void {
    if (this.limits.layout === 'private') return;
    while (this.cells.freeFor(sequence) < count) {
      // One that shares all its cells would free nothing and lose a hit; it goes only when there is no other.
      const frees = (candidate: Sequence) => this.cells.ownCells(candidate.id) > 0;
      const oldest = this.table.leastRecentIdle(null, frees) ?? this.table.leastRecentIdle(null);
      if (!oldest) return;
      this.evict(oldest);
    }
  }

  /** Room for a running request's next token: from idle prefixes, then from victims. False: it was itself the cheapest victim. */
  private makeRoom(request: Request, count: number): boolean {
    this.evictUntil(request.sequence, count);
    while (this.cells.freeFor(request.sequence) < count) {
      const victim = this.cheapestVictim(request);
      this.preempt(victim);
      if (victim === request) return false;
    }
    return true;
  }

  /** The running request that was admitted last among the least urgent, if this step has no segment of it yet; else `fallback`. */
  private cheapestVictim(fallback: Request | null): Request {
    let victim = fallback;
    for (const request of this.running) {
      if (this.plan.requests.includes(request)) continue;
      if (
        victim === null ||
        request.spec.priority > victim.spec.priority ||
        (request.spec.priority === victim.spec.priority && request.admittedOrder > victim.admittedOrder)
      ) {
        victim = request;
      }
    }
    if (!victim) throw new Error('no request to preempt');
    return victim;
  }

  private preempt(victim: Request): void {
    this.counters.preemptions++;
    this.release(this.table.all[victim.sequence], OP_KIND.remove);
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
    for (const sequence of this.table.all) this.table.makeFree(sequence);
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
    limits.contextTokens <= limits.cells &&
    limits.waitingMax >= 1;
  if (!ok) throw new RangeError(`scheduler limits contradict each other: ${JSON.stringify(limits)}`);
}
