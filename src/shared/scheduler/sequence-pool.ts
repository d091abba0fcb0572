import { OP_KIND } from '../batch-wire.js';
import { chooseEvictions, evictionOrder, type IdlePrefix, prefixValue } from '../memory/eviction-order.js';
import { cachedBesideTile } from './attention-tiles.js';
import type { BatchPlan } from './batch-plan.js';
import { type CarryBudget, type CarryOver, placesFor, type SequenceMove } from './carry-over.js';
import { CellAccounting } from './cell-accounting.js';
import type { SchedulerCounters } from './counters.js';
import { type HostTier, TIER_MIN_TOKENS } from './host-tier.js';
import type { SchedulerLimits } from './limits.js';
import type { Request } from './request.js';
import type { SavedMatch } from './saved-prefix.js';
import { commonPrefix, type PrefixMatch, type Sequence, SequenceTable } from './sequence-table.js';
import { byUrgencyAndAge } from './victim.js';

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
    readonly tier: HostTier,
  ) {
    this.table = new SequenceTable(limits.sequences);
    this.cells = new CellAccounting(limits.layout, limits.cells, limits.sequences);
  }

  sequenceOf(request: Request): Sequence {
    return this.table.all[request.sequence];
  }

  /** Time of the plan being made. */
  nowMs = 0;
  /** The last reading. */
  headroomBytes = Number.POSITIVE_INFINITY;
  /** A larger context may be made, and nothing speaks against it now. */
  canGrow = false;
  /** It may not, but could if the host tier gave its memory back. */
  tierHoldsGrowth = false;
  /** A context with more sequences may be made. */
  canSpread = false;
  /** Cells (of the pool, or of a stream) that this plan would have liked to have; 0: those there are will do. */
  wantedCells = 0;
  /** The same of sequences. */
  wantedSequences = 0;
  /** A running request has filled its stream, and there is no longer one now: those that run beside it must end first. */
  isSpanShort = false;

  /** Asks for a context with `count` cells more, of the pool or of each stream. Returns whether there is hope for one. */
  wantMore(count: number): boolean {
    const { cells, cellsMax } = this.limits;
    if (cells >= cellsMax) return false;
    // Cells serve running requests, saved prefixes only those that may come.
    if (this.tierHoldsGrowth) this.tier.giveWay(this.nowMs);
    if (!this.canGrow) return false;
    this.wantedCells = Math.max(this.wantedCells, Math.min(cells + count + GROWTH_TOKENS, cellsMax));
    return true;
  }

  /** Asks for a context with `count` sequences. Returns whether there is hope for one. */
  wantSequences(count: number): boolean {
    const { sequences, sequencesMax } = this.limits;
    if (count <= sequences || sequences >= sequencesMax || !this.canSpread) return false;
    this.wantedSequences = Math.min(count, sequencesMax);
    return true;
  }

  /** More of what is asked for already. */
  wantAlso(count: number): void {
    this.wantedCells = Math.min(this.wantedCells + count, this.limits.cellsMax);
  }

  /** What a context with `count` cells more takes beyond this one. */
  growthBytes(count: number): number {
    const { layout, sequences, hasShapes, cellBytes } = this.limits;
    if (hasShapes) return 0;
    return count * cellBytes * (layout === 'shared' ? 1 : sequences);
  }

  /**
   * Sequences to carry into a context of `sequences` sequences and `cells` cells: busy ones first (the more urgent, then who came first),
   * then cached prefixes, most valuable first, as many as fit there and into `budget` on the way. A copy holds shared cells for itself, so
   * each sequence counts with its whole length.
   * Only what is being used is worth a file.
   */
  sequencesToKeep(sequences: number, cells: number, budget: CarryBudget): CarryOver {
    const byWorth = this.table.all.filter((sequence) => this.cells.length(sequence.id) > 0);
    const worth = (sequence: Sequence) =>
      sequence.state === 'busy' ? Number.MAX_VALUE : prefixValue(this.prefix(sequence), this.nowMs);
    byWorth.sort((a, b) => {
      const byState = worth(b) - worth(a);
      if (byState !== 0) return byState;
      return a.owner && b.owner ? byUrgencyAndAge(a.owner, b.owner) : b.lastUsedMs - a.lastUsedMs;
    });
    const copied: number[] = [];
    const spilled: number[] = [];
    let room = this.limits.layout === 'shared' ? cells : Number.POSITIVE_INFINITY;
    let { copyTokens, spillTokens } = budget;
    for (const { id, state, owner } of byWorth) {
      const length = this.cells.length(id);
      // What its prompt needs, not what is computed of it: it could never end there.
      const neededCells = owner === null ? length : Math.max(length, owner.tokenCount + 1);
      if (length > room || neededCells > cells || copied.length + spilled.length === sequences) continue;
      if (length <= copyTokens) {
        copyTokens -= length;
        copied.push(id);
      } else if (state === 'busy' && length <= Math.min(spillTokens, budget.spillLongestTokens)) {
        spillTokens -= length;
        spilled.push(id);
      } else {
        continue;
      }
      room -= length;
    }
    const places = placesFor([...copied, ...spilled], sequences);
    const moved = (from: number) => ({ from, to: places.get(from) as number });
    return { copied: copied.map(moved), spilled: spilled.map(moved) };
  }

  /** Tokens that these sequences hold, each counted by itself. */
  lengthsOf(moves: readonly SequenceMove[]): number {
    return moves.reduce((sum, { from }) => sum + this.cells.length(from), 0);
  }

  /** The sequences of `before` that were carried over into this context. */
  adopt(before: SequencePool, carried: readonly SequenceMove[]): void {
    for (const { from, to } of carried) {
      this.table.adopt(before.table.all[from], to);
      this.cells.append(to, before.cells.length(from));
    }
  }

  /** Cells of the longest sequence of a running request. */
  longestBusyCells(): number {
    return this.table.all.reduce(
      (most, { id, state }) => Math.max(most, state === 'busy' ? this.cells.length(id) : 0),
      0,
    );
  }

  /** Cells of busy sequences, and of `also`. */
  busyCells(also: Sequence | null = null): number {
    return this.cells.countHeld((id) => this.table.all[id].state === 'busy' || id === also?.id);
  }

  findPrefix(request: Request): PrefixMatch | null {
    if (!this.limits.prefixCache || !request.spec.usesPrefixCache) return null;
    const { canTrim, tileTokens } = this.limits;
    const match = this.table.longestPrefix(request.tokens, request.knownCount - 1, request.spec.cacheSalt, canTrim);
    if (match === null || !canTrim) return match;
    const { sequence, count } = match;
    return { sequence, count: cachedBesideTile(count, request.knownCount - count, tileTokens) };
  }

  /** What the host tier has of the prompt, where that is enough more than what `match` offers. */
  findSaved(request: Request, match: PrefixMatch | null): SavedMatch | null {
    if (!this.limits.prefixCache || !request.spec.usesPrefixCache) return null;
    const { tokens, knownCount, spec } = request;
    const found = this.tier.find(tokens, knownCount - 1, spec.cacheSalt, match?.count ?? 0);
    if (!found || found.saved.tokens.length > this.limits.cells) return null;
    const { saved, count } = found;
    if (!this.limits.canTrim) return found;
    return { saved, count: cachedBesideTile(count, knownCount - count, this.limits.tileTokens) };
  }

  /** Boundaries of the request's messages, behind what is computed of it, at which a checkpoint should be taken: ascending. */
  checkpointsOf(request: Request): number[] {
    const { prefixCache, canTrim } = this.limits;
    const { spec, tokens, computedCount } = request;
    if (!prefixCache || canTrim || !spec.usesPrefixCache) return [];
    let before = 0;
    return spec.boundaries.filter((count) => {
      const isAhead = count > computedCount && count >= before + TIER_MIN_TOKENS;
      const isWanted = isAhead && this.tier.wantsCheckpoint(tokens, count, spec.cacheSalt);
      if (isWanted) before = count;
      return isWanted;
    });
  }

  /** The cells of a running request end at a boundary before the plan being made: they are saved as they are. */
  checkpoint(request: Request): void {
    if (this.plan.changesCells(request.sequence)) return;
    this.tier.checkpoint(this.sequenceOf(request), request.computedCount, this.nowMs);
  }

  /**
   * Whether a running request is computing a prefix right now that `request` could take, longer than the `cached` tokens that are there
   * already: then it waits for that prefill instead of doing it a second time.
   */
  isPrefixComing(request: Request, cached: number, running: readonly Request[]): boolean {
    if (!this.limits.prefixCache || !request.spec.usesPrefixCache) return false;
    if (!this.limits.canTrim) return this.isCheckpointComing(request, cached, running);
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

  /** The same where only a checkpoint can be taken: one that a running request will stop for, or whose copy is on its way. */
  private isCheckpointComing(request: Request, cached: number, running: readonly Request[]): boolean {
    const { tokens, spec } = request;
    const limit = request.knownCount - 1;
    const least = cached + DEFER_MIN_TOKENS;
    if (this.tier.isSaving(tokens, least, limit, spec.cacheSalt)) return true;
    return running.some(
      (other) =>
        other.spec.cacheSalt === spec.cacheSalt &&
        other.checkpoints.some(
          (count) => count >= least && count <= limit && commonPrefix(other.tokens, tokens, count) === count,
        ),
    );
  }

  /** Not all sequences are busy. */
  get hasHome(): boolean {
    return this.table.all.some((sequence) => sequence.state !== 'busy');
  }

  /**
   * The sequence that a request will live in: the matched one, when less than a copy's worth of it would be lost; else a free one; else
   * the one whose loss weighs least, which of the matched one is its end. null: all are busy.
   */
  chooseHome(match: PrefixMatch | null): Sequence | null {
    if (match && this.isContinued(match)) return match.sequence;
    const free = this.table.firstFree();
    if (free) return free;
    const homes = this.table
      .idle()
      .map((sequence) => this.prefix(sequence, this.lostTokens(sequence, match), sequence.cachedCount));
    const [home] = evictionOrder(homes, this.nowMs);
    return home ? this.table.all[home.id] : null;
  }

  /** The request that matched `match` would live where an idle prefix is, which is lost then. */
  wouldEvict(match: PrefixMatch | null): boolean {
    return this.table.firstFree() === null && !(match && this.isContinued(match));
  }

  /** The matched sequence is idle and ends where the prompt goes on, but for less than a copy's worth. */
  private isContinued({ sequence, count }: PrefixMatch): boolean {
    return sequence.state === 'idle' && sequence.cachedCount - count < COPY_MIN_TOKENS;
  }

  private lostTokens(sequence: Sequence, match: PrefixMatch | null): number {
    return sequence === match?.sequence ? sequence.cachedCount - match.count : this.cells.ownCells(sequence.id);
  }

  /** What other sequences hold as well is not lost with this one: its own cells are what it gives back, and what a hit on it saves. */
  private prefix(sequence: Sequence, tokens = this.cells.ownCells(sequence.id), freesCells = tokens): IdlePrefix {
    const { id, hits, lastUsedMs } = sequence;
    return { id, freesCells, freesBytes: 0, tokens, hits, lastUsedMs, pinned: false };
  }

  /** Makes `home` hold the matched prefix and nothing else, and gives it to `request`. Returns the prefix's length. */
  occupy(home: Sequence, match: PrefixMatch | null, request: Request): number {
    // A conversation that goes on is one use that lasts: were each turn a hit, those that are over would outlive those that have begun.
    const isHit = match !== null && !this.isContinued(match);
    const cached = this.prepare(home, match);
    if (cached > 0 && match?.sequence.cacheSalt !== request.spec.cacheSalt)
      throw new Error('a prefix crossed its salt');
    if (isHit && cached > 0) this.table.hit(match.sequence, this.nowMs);
    this.table.assign(home, request, this.nowMs);
    return cached;
  }

  /** Empties `home` and gives it to `request`; the saved prefix comes into it with the plan being made. */
  occupySaved(home: Sequence, match: SavedMatch, request: Request): void {
    const { saved, count } = match;
    if (saved.cacheSalt !== request.spec.cacheSalt) throw new Error('a saved prefix crossed its salt');
    if (home.state === 'idle') this.evict(home);
    const { canTrim } = this.limits;
    const keeps = !canTrim || saved.tokens.length - count >= COPY_MIN_TOKENS;
    // A checkpoint from which a conversation goes on makes way for its next one; the one that all begin with has earned its place.
    const isHit = canTrim || count <= request.spec.boundaries[0];
    this.tier.restore(match, home.id, keeps, isHit, this.nowMs);
    this.cells.append(home.id, saved.tokens.length);
    this.table.assign(home, request, this.nowMs);
    if (!keeps) home.hits = saved.hits;
  }

  /**
   * A saved prefix of `count` tokens was to come into the request's sequence: what is there and not the request's goes. Failures are told by
   * slot, and a record may copy one slot into two sequences, so that a copy counts as failed is no proof that nothing came.
   */
  trimRestored(request: Request, count: number): void {
    if (count > request.computedCount) this.plan.addOp(OP_KIND.remove, request.sequence, -1, request.computedCount, -1);
    this.cells.truncate(request.sequence, request.computedCount);
  }

  /** A request is over: its first `count` tokens stay as a cached prefix, where that is of use. */
  retire(request: Request, count: number): void {
    const sequence = this.sequenceOf(request);
    this.table.refresh(sequence);
    this.cells.truncate(sequence.id, count);
    const keeps =
      this.limits.prefixCache && request.spec.usesPrefixCache && count > 0 && !this.isDuplicate(sequence, count);
    if (keeps) this.table.makeIdle(sequence, count, this.nowMs);
    else this.release(sequence, OP_KIND.remove);
  }

  /** Takes everything from a running request. */
  expel(request: Request): void {
    this.plan.addOp(OP_KIND.stop, request.sequence, -1, 0, -1);
    this.release(this.sequenceOf(request), OP_KIND.remove);
  }

  /**
   * Makes room for `count` more cells of `sequence`: asks for a larger context while there is hope for one, else evicts idle prefixes
   * until it fits or none is left.
   */
  evictUntil(sequence: number, count: number): void {
    const short = count - this.cells.freeFor(sequence);
    if (short <= 0 || this.wantMore(short)) return;
    if (this.limits.layout === 'private') {
      this.isSpanShort = this.limits.cells < this.limits.cellsMax;
      return;
    }
    this.evictCells(short);
  }

  /** Evicts idle prefixes other than `pinned`, least valuable first, until the pool has `count` free cells more or none is left. */
  evictCells(count: number, pinned: Sequence | null = null): void {
    const enough = this.cells.usedCells - count;
    while (this.cells.usedCells > enough) {
      const idle = this.table.idle().filter((sequence) => sequence !== pinned);
      const need = { cells: this.cells.usedCells - enough, bytes: 0 };
      const prefixes = idle.map((sequence) => this.prefix(sequence));
      const { ids } = chooseEvictions(prefixes, need, this.nowMs, true);
      if (ids.length > 0) for (const id of ids) this.evict(this.table.all[id]);
      // Those that are left hold all their cells together with others: only the last of them to go frees any.
      else if (idle.length > 0) this.evict(idle[0]);
      else return;
    }
  }

  private prepare(home: Sequence, match: PrefixMatch | null): number {
    if (match && match.sequence === home) {
      this.saveIdle(home, home.cachedCount - match.count);
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
    const own = this.cells.ownCells(sequence.id);
    this.counters.evictedTokens += own;
    this.saveIdle(sequence, own);
    this.release(sequence, OP_KIND.evict);
  }

  /** An idle sequence is about to lose `lost` tokens that no other has. Saves are made before the record's operations. */
  private saveIdle(sequence: Sequence, lost: number): void {
    if (!this.limits.canTrim || this.plan.changesCells(sequence.id)) return;
    this.tier.save(sequence, sequence.cachedCount, lost, this.nowMs);
  }

  private release(sequence: Sequence, kind: number): void {
    this.plan.addOp(kind, sequence.id, -1, 0, -1);
    this.cells.truncate(sequence.id, 0);
    this.table.makeFree(sequence);
  }
}
