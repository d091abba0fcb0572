import { OP_KIND } from '../batch-wire.js';
import type { BatchPlan } from './batch-plan.js';
import { CellAccounting } from './cell-accounting.js';
import type { SchedulerCounters } from './counters.js';
import type { SchedulerLimits } from './limits.js';
import type { Request } from './request.js';
import { commonPrefix, type PrefixMatch, type Sequence, SequenceTable } from './sequence-table.js';

/** A shorter prefix is not worth a copy of its own. Chosen: prefill does this many tokens in the time of one decode step. */
const COPY_MIN_TOKENS = 32;
/** A larger context should last for a while. Chosen. */
const GROWTH_TOKENS = 256;
/** Waiting for another's prefill must bring at least this much more than what is cached already. Chosen: one small chunk. */
const DEFER_MIN_TOKENS = 64;

/**
 * The context's sequences and their cells: who lives where, which prefix is taken from where, what is evicted. Every change to the
 * engine's memory is an op in the plan, made in the same order as the change of the books.
 */
export class SequencePool {
  readonly table: SequenceTable;
  readonly cells: CellAccounting;

  constructor(
    private readonly limits: SchedulerLimits,
    private readonly plan: BatchPlan,
    private readonly counters: SchedulerCounters,
  ) {
    this.table = new SequenceTable(limits.sequences);
    this.cells = new CellAccounting(limits.layout, limits.cells, limits.sequences);
  }

  sequenceOf(request: Request): Sequence {
    return this.table.all[request.sequence];
  }

  /** A larger context may be made, and nothing speaks against it now. */
  canGrow = false;
  /** Cells (of the pool, or of a stream) that this plan would have liked to have; 0: those there are will do. */
  wantedCells = 0;

  /** Asks for a larger context. Returns whether there is hope for one. */
  wantCells(cells: number): boolean {
    if (!this.canGrow || this.limits.cells >= this.limits.cellsMax) return false;
    this.wantedCells = Math.max(this.wantedCells, Math.min(cells, this.limits.cellsMax));
    return true;
  }

  /**
   * Sequences to carry into a context of `cells` cells: busy ones first, then cached prefixes, latest used first, as many as fit there and
   * into `budgetTokens` on the way. A copy holds shared cells for itself, so each sequence counts with its whole length.
   */
  sequencesToKeep(cells: number, budgetTokens: number): number[] {
    const byWorth = this.table.all.filter((sequence) => this.cells.length(sequence.id) > 0);
    byWorth.sort((a, b) => Number(b.state === 'busy') - Number(a.state === 'busy') || b.lastUsed - a.lastUsed);
    let budget = this.limits.layout === 'shared' ? Math.min(cells, budgetTokens) : budgetTokens;
    return byWorth.flatMap(({ id }) => {
      const length = this.cells.length(id);
      if (length > budget || length > cells) return [];
      budget -= length;
      return [id];
    });
  }

  /** The sequences of `before` that were carried over into this context. */
  adopt(before: SequencePool, carried: readonly number[]): void {
    for (const id of carried) {
      this.table.adopt(before.table.all[id]);
      this.cells.append(id, before.cells.length(id));
    }
  }

  /** Cells of busy sequences, and of `also`. */
  busyCells(also: Sequence | null = null): number {
    return this.cells.countHeld((id) => this.table.all[id].state === 'busy' || id === also?.id);
  }

  findPrefix(request: Request): PrefixMatch | null {
    if (!this.limits.prefixCache || !request.spec.usesPrefixCache) return null;
    return this.table.longestPrefix(
      request.tokens,
      request.knownCount - 1,
      request.spec.cacheSalt,
      this.limits.canTrim,
    );
  }

  /**
   * Whether a running request is computing a prefix right now that `request` could take, longer than what `match` offers: then it waits
   * for that prefill instead of doing it a second time.
   */
  isPrefixComing(request: Request, match: PrefixMatch | null, running: readonly Request[]): boolean {
    if (!this.limits.prefixCache || !this.limits.canTrim || !request.spec.usesPrefixCache) return false;
    const cached = match?.count ?? 0;
    for (const other of running) {
      if (other.spec.cacheSalt !== request.spec.cacheSalt || !other.spec.usesPrefixCache) continue;
      // Only prompts are waited for: their end is near and certain.
      const limit = Math.min(other.promptCount, request.knownCount - 1);
      if (other.sharableCount >= limit || limit < cached + DEFER_MIN_TOKENS) continue;
      const shared = commonPrefix(other.tokens, request.tokens, limit);
      if (shared >= cached + DEFER_MIN_TOKENS && other.sharableCount < shared) return true;
    }
    return false;
  }

  /**
   * The sequence that a request will live in: the matched one, when it is idle and little of it would be lost; else a free one; else
   * the idle one that was used longest ago; the matched one as the last resort. null: all are busy.
   */
  chooseHome(match: PrefixMatch | null): Sequence | null {
    const idleMatch = match?.sequence.state === 'idle' ? match.sequence : null;
    if (match && idleMatch && (!this.limits.canTrim || match.count * 2 >= idleMatch.cachedCount)) return idleMatch;
    return this.table.firstFree() ?? this.table.leastRecentIdle(idleMatch) ?? idleMatch;
  }

  /** Makes `home` hold the matched prefix and nothing else, and gives it to `request`. Returns the prefix's length. */
  occupy(home: Sequence, match: PrefixMatch | null, request: Request): number {
    const cached = this.prepare(home, match);
    if (cached > 0 && match?.sequence.cacheSalt !== request.spec.cacheSalt)
      throw new Error('a prefix crossed its salt');
    this.table.assign(home, request);
    return cached;
  }

  /** A request is over: its first `count` tokens stay as a cached prefix, where that is of use. */
  retire(request: Request, count: number): void {
    const sequence = this.sequenceOf(request);
    this.table.refresh(sequence);
    this.cells.truncate(sequence.id, count);
    const keeps =
      this.limits.prefixCache && request.spec.usesPrefixCache && count > 0 && !this.isDuplicate(sequence, count);
    if (keeps) this.table.makeIdle(sequence, count);
    else this.release(sequence, OP_KIND.remove);
  }

  /** Takes everything from a running request. */
  expel(request: Request): void {
    this.plan.addOp(OP_KIND.stop, request.sequence, -1, 0, -1);
    this.release(this.sequenceOf(request), OP_KIND.remove);
  }

  /**
   * Makes room for `count` more cells of `sequence`: asks for a larger context while there is hope for one, else evicts idle prefixes,
   * oldest first, until it fits or none is left.
   */
  evictUntil(sequence: number, count: number): void {
    if (this.cells.freeFor(sequence) >= count) return;
    if (this.limits.layout === 'private') {
      this.wantCells(this.cells.length(sequence) + count + GROWTH_TOKENS);
      return;
    }
    if (this.wantCells(this.cells.usedCells + count + GROWTH_TOKENS)) return;
    // One that shares all its cells would free nothing and lose a hit; it goes only when there is no other.
    const frees = (candidate: Sequence) => this.cells.ownCells(candidate.id) > 0;
    while (this.cells.freeFor(sequence) < count) {
      const oldest = this.table.leastRecentIdle(null, frees) ?? this.table.leastRecentIdle(null);
      if (!oldest) return;
      this.evict(oldest);
    }
  }

  private prepare(home: Sequence, match: PrefixMatch | null): number {
    if (match && match.sequence === home) {
      if (match.count < home.cachedCount) this.plan.addOp(OP_KIND.remove, home.id, -1, match.count, -1);
      this.cells.truncate(home.id, match.count);
      return match.count;
    }
    if (home.state === 'idle') this.evict(home);
    if (!match || !this.limits.canTrim || match.count < COPY_MIN_TOKENS) return 0;
    this.copyPrefix(match, home);
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

  /** Another sequence holds these tokens already, and more. Where ends cannot be removed, it would not serve for the shorter one. */
  private isDuplicate(sequence: Sequence, count: number): boolean {
    if (!this.limits.canTrim) return false;
    const match = this.table.longestPrefix(sequence.tokens, count, sequence.cacheSalt, true, sequence);
    return match !== null && match.count === count;
  }

  private evict(sequence: Sequence): void {
    this.counters.evictions++;
    this.counters.evictedTokens += this.cells.ownCells(sequence.id);
    this.release(sequence, OP_KIND.evict);
  }

  private release(sequence: Sequence, kind: number): void {
    this.plan.addOp(kind, sequence.id, -1, 0, -1);
    this.cells.truncate(sequence.id, 0);
    this.table.makeFree(sequence);
  }
}
