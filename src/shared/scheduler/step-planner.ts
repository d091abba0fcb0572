import { liveChunkTokens } from '../memory/live-chunk.js';
import { NOTICE_KIND } from '../token-wire.js';
import { ALL_WAITS_MS, answersEndFirst } from './answers-first.js';
import { inWholeTiles, withoutFragments } from './attention-tiles.js';
import { type BatchPlan, type Restore, startWordsOf } from './batch-plan.js';
import { cachedFirst } from './cached-first.js';
import type { StepTimes } from './chunk-policy.js';
import type { SchedulerCounters } from './counters.js';
import type { DiskTier } from './disk-tier.js';
import { DRAFT_TOKENS_MAX, type DraftSource } from './draft-policy.js';
import type { SchedulerLimits } from './limits.js';
import { splitPrefills } from './prefill-order.js';
import type { Request } from './request.js';
import type { RequestBook } from './request-book.js';
import type { SavedMatch } from './saved-prefix.js';
import type { SequencePool } from './sequence-pool.js';
import { StandingGate } from './standing-gate.js';
import { cheapestVictim } from './victim.js';

/** Waiting requests that one plan looks at behind those that wait for another's prefill. Chosen: bounds the plan's time. */
const ADMISSION_SCAN_MAX = 64;

/**
 * Fills one step's budget: decodes of running requests first, then prompts. Made anew for every context; requests outlive it in their book.
 */
export class StepPlanner {
  /** Prompt tokens that the last plan allowed. */
  chunkTokens = 0;
  /** In this step prompts of more than a chunk wait for the answers beside them. */
  private longWait = false;
  private readonly gate: StandingGate;

  constructor(
    private readonly limits: SchedulerLimits,
    private readonly plan: BatchPlan,
    private readonly book: RequestBook,
    private readonly pool: SequencePool,
    private readonly times: StepTimes,
    private readonly counters: SchedulerCounters,
    private readonly source: DraftSource,
    private readonly disk: DiskTier,
  ) {
    this.gate = new StandingGate(limits, pool);
  }

  /** `isIdle`: nothing is in flight, so what cannot be planned now will not become possible by itself. */
  fill(isIdle: boolean): void {
    for (const request of this.book.running) {
      request.sharableCount = request.isRestoring ? 0 : request.computedCount;
      this.takeCheckpoint(request);
    }
    this.planDecodes();
    this.planPrefills();
    const isStuck = isIdle && !this.plan.hasWork && this.book.running.length > 1 && this.pool.wantedCells === 0;
    if (isStuck) this.preemptCheapest();
  }

  /** The records so far end the request's cells at a boundary: this plan's saves are made before anything follows. */
  private takeCheckpoint(request: Request): void {
    const { checkpoints, computedCount } = request;
    if (checkpoints.length === 0 || checkpoints[0] > computedCount) return;
    if (checkpoints.shift() !== computedCount)
      throw new Error(`request ${request.id} was computed past its checkpoint`);
    this.pool.checkpoint(request);
  }

  private planDecodes(): void {
    for (const request of [...this.book.running]) {
      if (request.phase !== 'running' || !request.isDecoding || request.isRestoring) continue;
      if (request.draftCount > 0 || request.plannedOutputs >= request.spec.maxTokens) continue;
      const drafts = this.worthwhileDrafts(request);
      // Drafts follow a token that is known, and their result must be the only one that is still to come.
      if (drafts > 0 && request.pendingSteps > 0) continue;
      if (this.plan.decodes >= this.limits.batchTokens) break;
      if (request.needsStart && !this.hasRoomForStart(request)) continue;
      if (!this.makeRoom(request, 1)) continue;
      if (drafts > 0) this.addDrafts(request, drafts);
      else this.addSegment(request, 1);
      this.plan.decodes++;
    }
  }

  /**
   * Only for a request that runs alone: beside others a row costs nearly as much as theirs, and its steps would have to wait for their results. A
   * step has no more outputs than sequences, which is what the context has memory for.
   */
  private worthwhileDrafts(request: Request): number {
    const { limits, book } = this;
    if (!limits.speculates || !limits.canTrim || !request.spec.allowsDrafts) return 0;
    if (book.running.length > 1 || book.waiting.length > 0) return 0;
    const most = Math.min(
      DRAFT_TOKENS_MAX,
      Math.min(limits.sequences, limits.batchTokens) - 1,
      request.spec.maxTokens - request.plannedOutputs - 1,
      this.pool.cells.freeFor(request.sequence) - 1,
    );
    return most > 0 ? this.source.worthwhile(request, most) : 0;
  }

  private addDrafts(request: Request, count: number): void {
    if (request.needsStart) this.plan.addStart(request);
    request.needsStart = false;
    this.plan.addDraftSegment(request, this.source.drafts(request, count));
    this.pool.cells.append(request.sequence, 1 + count);
    request.computedCount++;
    request.tokenCount++;
    request.draftCount = count;
  }

  /**
   * Prompts that end within this step first, then new requests, then the long prompts, longest unserved first. New requests leave half
   * of the budget to long prompts that run already: neither can starve the other. Long ones wait for answers that had better end first.
   */
  private planPrefills(): void {
    const { limits, plan, book } = this;
    const wanted = this.times.chunkTokens(plan.decodes, this.chunkByMemory(), limits.targetItlMicros);
    const chunk = inWholeTiles(wanted, limits.tileTokens);
    let budget = Math.min(chunk, limits.batchTokens - plan.decodes - plan.draftTokens);
    this.chunkTokens = chunk;
    const { short, long } = splitPrefills(book.running, chunk);
    this.longWait = this.answersEndFirst() && this.mayWait(long);
    for (const request of short) budget -= this.planChunk(request, budget);
    const keptForLong = long.length > 0 && !this.longWait ? budget >> 1 : 0;
    budget = this.admitWaiting(budget - keptForLong) + keptForLong;
    if (this.longWait) return;
    for (const request of long) {
      request.release(book.nowMs);
      budget -= this.planChunk(request, budget);
    }
  }

  /** Short prompts go on meanwhile, and answers that follow each other could keep a long one waiting for ever. */
  private mayWait(long: readonly Request[]): boolean {
    const { nowMs } = this.book;
    if (long.some((request) => request.heldMs(nowMs) > ALL_WAITS_MS)) return false;
    for (const request of long) request.hold(nowMs);
    return true;
  }

  private answersEndFirst(): boolean {
    const { limits, plan, times, book } = this;
    const { cellBytes, weightsBytes } = limits;
    let cells = 0;
    let tokensLeft = 0;
    for (const request of book.running) {
      if (!request.isDecoding) continue;
      cells += request.tokenCount;
      tokensLeft = Math.max(tokensLeft, request.spec.maxTokens - request.plannedOutputs);
    }
    const { decodes } = plan;
    return answersEndFirst({
      decodes,
      cells,
      tokensLeft,
      decodeMicros: times.decodeMicros,
      cellBytes,
      weightsBytes,
    });
  }

  /** Compute memory stands, so a prompt token takes none; a step's prompts are together no longer than the pool. */
  private chunkByMemory(): number {
    const { chunkTokens } = this.limits;
    return liveChunkTokens({
      headroomBytes: this.pool.headroomBytes,
      newCacheBytes: 0,
      bytesPerTokenContext: 0,
      contextTokens: this.pool.cells.totalCells,
      confirmedChunkTokens: chunkTokens,
      standingChunkTokens: chunkTokens,
    });
  }

  /**
   * In order of the queue (cached-first.ts has the exception). A request that waits for a prefix which another is computing lets those behind it pass; one for which there
   * is no room does not, or it would starve. Returns what is left of the budget.
   */
  private admitWaiting(budget: number): number {
    // Who needs a longer stream than there is waits for those beside it, not for newcomers.
    if (budget <= 0 || this.book.waiting.length === 0 || this.pool.isSpanShort) return budget;
    const queue = this.book.waiting.head(ADMISSION_SCAN_MAX);
    const canAdmit = this.book.running.length < this.limits.runningCap && this.pool.hasHome;
    for (const request of canAdmit ? cachedFirst(queue, this.pool) : queue) {
      if (budget <= 0) break;
      if (this.isBetterLater(request, budget)) break;
      const verdict = this.admit(request);
      if (verdict === 'no room') {
        this.wantForThoseBehind(request);
        break;
      }
      if (verdict !== 'admitted') continue;
      if (request !== queue[0] && queue[0].phase === 'waiting') queue[0].overtakenCount++;
      budget -= this.planChunk(request, budget);
    }
    return budget;
  }

  /** A context that must grow for `request` grows for those behind it as well: a second move would find more to carry, and less room for it. */
  private wantForThoseBehind(request: Request): void {
    const { pool, limits, book } = this;
    if (pool.wantedCells === 0 || limits.layout === 'private') return;
    const places = limits.runningCap - book.running.length;
    const behind = book.waiting.head(places).filter((other) => other !== request);
    pool.wantAlso(behind.reduce((cells, { tokenCount }) => cells + tokenCount + 1, 0));
  }

  /**
   * A step that is more than half full leaves a prompt that would only begin in it, and fits whole into the next one, to that one: private
   * streams are computed in runs of equal length, so a fragment makes two computations of everybody's prompts, and of its own. Longer ones
   * wait where long prompts do.
   */
  private isBetterLater(request: Request, budget: number): boolean {
    const isMostlyFull = this.plan.promptTokens > 0 && budget * 2 < this.chunkTokens && this.limits.layout !== 'shared';
    if ((!isMostlyFull && !this.longWait) || request.tokenCount <= budget) return false;
    const match = this.pool.findPrefix(request);
    const cached = this.pool.findSaved(request, match)?.count ?? match?.count ?? 0;
    const missing = request.tokenCount - cached;
    if (missing <= budget) return false;
    return missing > this.chunkTokens ? this.longWait : isMostlyFull;
  }

  /** Plans up to `budget` prompt tokens of a running request; returns how many. */
  private planChunk(request: Request, budget: number): number {
    if (request.isRestoring) return 0;
    const stop = request.checkpoints[0] ?? request.knownCount;
    // A piece that ends at a checkpoint is to the kernels a prompt of its own.
    const known = Math.min(request.remaining, Math.min(request.knownCount, stop) - request.computedCount);
    const { tileTokens } = this.limits;
    let count = withoutFragments(Math.min(known, budget), known, tileTokens);
    const isFragment = count < Math.min(known, tileTokens);
    if (isFragment && this.plan.promptTokens > 0) return 0;
    const free = this.pool.cells.freeFor(request.sequence);
    if (free < count) {
      this.pool.evictUntil(request.sequence, count);
      count = Math.min(count, this.pool.cells.freeFor(request.sequence));
    }
    if (count <= 0 || (request.needsStart && !this.hasRoomForStart(request))) return 0;
    request.lastServed = this.book.nextOrder();
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
    if (this.book.running.length >= this.limits.runningCap || !this.pool.hasHome) {
      this.wantStreams();
      return 'no room';
    }
    if (request.pendingSteps > 0) return 'deferred';
    if (!this.hasRoomForStart(request)) return 'no room';
    const match = this.pool.findPrefix(request);
    const saved = this.pool.findSaved(request, match);
    const cached = saved?.count ?? match?.count ?? 0;
    if (this.pool.isPrefixComing(request, cached, this.book.running)) return 'deferred';
    if (this.isReadFromDisk(request, cached)) return 'deferred';
    if (saved) return this.admitSaved(request, saved);
    if (!this.gate.admits(request, match, this.book.running)) return 'no room';
    // Memory that is free is better used than by computing again what is evicted now.
    if (this.pool.wouldEvict(match) && this.wantStreams()) return 'no room';
    const home = this.pool.chooseHome(match);
    if (!home) return 'no room';
    const taken = this.pool.occupy(home, match, request);
    this.book.run(request);
    request.admit(home.id, taken, this.book.nextOrder());
    request.checkpoints = this.pool.checkpointsOf(request);
    this.announce(request, taken);
    return 'admitted';
  }

  /** A file has more of the prompt, and is being read: worth a bounded wait. */
  private isReadFromDisk(request: Request, cached: number): boolean {
    const { limits, disk, pool } = this;
    if (!disk.isOpen || !limits.prefixCache || !limits.canTrim || !request.spec.usesPrefixCache) return false;
    const { tokens, knownCount, spec } = request;
    return disk.isComing(tokens, knownCount - 1, spec.cacheSalt, cached, limits.cellsMax, pool.nowMs);
  }

  /** Asks for as many streams as there are requests, and one more than there are now at least. */
  private wantStreams(): boolean {
    const { running, waiting } = this.book;
    return this.pool.wantSequences(Math.max(running.length + waiting.length, this.limits.sequences + 1));
  }

  /** Gives a waiting request a sequence, into which its prefix comes from the host tier. It is computed from the next record on. */
  private admitSaved(request: Request, match: SavedMatch): 'admitted' | 'no room' {
    const { pool } = this;
    pool.tier.pinned = match.saved;
    try {
      const cells = Math.max(request.tokenCount + 1, match.saved.tokens.length);
      if (!this.gate.admits(request, null, this.book.running, cells)) return 'no room';
      const home = pool.chooseHome(null);
      if (!home) return 'no room';
      pool.occupySaved(home, match, request);
      this.book.run(request);
      request.admit(home.id, match.count, this.book.nextOrder());
      request.checkpoints = pool.checkpointsOf(request);
      request.isRestoring = true;
      request.sharableCount = 0;
      this.plan.restores.push({ request, slot: match.saved.slot, count: match.saved.tokens.length });
      return 'admitted';
    } finally {
      pool.tier.pinned = null;
    }
  }

  /** The record that restores the request's prefix came back. Where that failed, its prompt is computed as if nothing had been there. */
  restored({ request, slot, count }: Restore, isRestored: boolean): void {
    if (!isRestored) this.pool.tier.restoreFailed(slot);
    // Preempted, or its context is lost, meanwhile: it has begun anew, or it is over and has no cells.
    if (!request.isRestoring || request.sequence < 0) return;
    request.isRestoring = false;
    if (!isRestored) {
      request.computedCount = 0;
      request.checkpoints = this.pool.checkpointsOf(request);
    }
    this.pool.trimRestored(request, count);
    if (request.phase === 'running') this.announce(request, request.computedCount);
  }

  /** One start of any size fits into a record; more only as far as there is room. */
  private hasRoomForStart(request: Request): boolean {
    return this.plan.startCount === 0 || this.plan.startWords + startWordsOf(request) <= this.limits.startWords;
  }

  /** Tells main, the first time, that the request has left the queue. */
  private announce(request: Request, cached: number): void {
    if (request.announced) return;
    request.announced = true;
    this.counters.prefixHitTokens += cached;
    this.counters.prefixLookupTokens += request.promptCount;
    this.plan.addNotice(request.id, NOTICE_KIND.started, cached, request.promptCount);
  }

  /** Room for a running request's next token: from idle prefixes, then from victims. False: it was itself the cheapest victim. */
  private makeRoom(request: Request, count: number): boolean {
    this.pool.evictUntil(request.sequence, count);
    while (this.pool.cells.freeFor(request.sequence) < count) {
      // A larger context comes; a full private stream cannot be helped by anyone's cells.
      if (this.pool.wantedCells > 0 || this.limits.layout === 'private') return false;
      const victim = cheapestVictim(this.book.running, this.plan.requests) ?? request;
      this.preempt(victim);
      if (victim === request) return false;
    }
    return true;
  }

  private preemptCheapest(): void {
    const victim = cheapestVictim(this.book.running, []);
    if (victim) this.preempt(victim);
  }

  private preempt(victim: Request): void {
    this.counters.preemptions++;
    this.pool.expel(victim);
    this.book.requeue(victim);
  }
}
