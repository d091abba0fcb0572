import { chooseEvictions, prefixValue } from '../memory/eviction-order.js';
import { TIER_COPIES_MAX, TIER_OP_KIND } from '../tier-wire.js';
import { CopyCosts, type StateKind } from './copy-costs.js';
import type { SchedulerCounters } from './counters.js';
import { asPrefix, isPrefixOf, type SavedMatch, type SavedPrefix } from './saved-prefix.js';
import { commonPrefix, type Sequence } from './sequence-table.js';
import type { TierOps } from './tier-ops.js';

/** A shorter prefix is computed as fast as it is copied there and back, with the bookkeeping. Chosen: one small chunk. */
export const TIER_MIN_TOKENS = 64;
/** Prefixes at most: each is looked at for each request that is admitted. Chosen: a plan must not take longer than a tenth of a millisecond for it. */
const TIER_SLOTS_MAX = 256;
/** Readings may be so old: nothing is saved for so long after memory was needed elsewhere. Chosen: as for climbs (rung-policy.ts). */
const QUIET_MS = 1_000;

/**
 * The books of the host tier: prefixes that were evicted from the context and lie in host memory until their conversation goes on. Decides
 * what is saved, what is worth restoring and what goes; the forward worker has the bytes and does what the records say. Outlives contexts:
 * a state fits every rung of the ladder.
 */
export class HostTier {
  private budget = 0;
  private quietUntilMs = Number.NEGATIVE_INFINITY;
  /** Saved since the last reading, or being saved. */
  private fresh = 0;
  /** What copies take, and what they spare. */
  readonly costs: CopyCosts;
  /** About to be restored: the room that this needs must not cost it. */
  pinned: SavedPrefix | null = null;
  private readonly bySlot = new Map<number, SavedPrefix>();
  private held = 0;
  private lastSlot = 0;

  constructor(
    private readonly kind: StateKind,
    private readonly ops: TierOps,
    private readonly counters: SchedulerCounters,
  ) {
    this.costs = new CopyCosts(kind);
  }

  /** Numbers of what the books have. */
  get slots(): number[] {
    return [...this.bySlot.keys()];
  }

  /** Bytes of everything saved, with what is being saved. */
  get heldBytes(): number {
    return this.held;
  }

  /** Bytes that it may hold; 0: it is off, or memory is short. */
  get budgetBytes(): number {
    return this.budget;
  }

  /** Bytes that the last reading does not show yet. */
  get freshBytes(): number {
    return this.fresh;
  }

  /** A reading was taken: it shows what has been saved, but for what is under way. */
  readingTaken(): void {
    this.fresh = 0;
    for (const saved of this.bySlot.values()) if (!saved.isSaved) this.fresh += saved.bytes;
  }

  /** What the tier may hold from now on; what is above goes with the next record. */
  setBudget(bytes: number, nowMs: number): void {
    this.budget = nowMs < this.quietUntilMs ? Math.min(bytes, this.held) : bytes;
  }

  /** Nothing is saved for a while: what was taken elsewhere must show in the readings first. */
  holdBack(nowMs: number): void {
    this.quietUntilMs = nowMs + QUIET_MS;
    this.budget = Math.min(this.budget, this.held);
  }

  /** For how long nothing is saved yet, ms; 0: memory decides alone. */
  heldBackMs(nowMs: number): number {
    return Math.max(0, this.quietUntilMs - nowMs);
  }

  /** The saved prefix that has most of `tokens` and is worth the copy, where the context's cells have `cached` of them; null: none. */
  find(tokens: Int32Array, limit: number, cacheSalt: number, cached: number): SavedMatch | null {
    if (this.bySlot.size === 0) return null;
    let best: SavedMatch | null = null;
    for (const saved of this.bySlot.values()) {
      if (!saved.isSaved || saved.cacheSalt !== cacheSalt) continue;
      // Conversations begin alike: one look at where they must still agree spares most of the comparisons.
      const decisive = cached + TIER_MIN_TOKENS - 1;
      if (decisive >= limit || saved.tokens[decisive] !== tokens[decisive]) continue;
      const count = commonPrefix(saved.tokens, tokens, Math.min(saved.tokens.length, limit));
      if (!this.kind.canTrim && count < saved.tokens.length) continue;
      if (count < cached + TIER_MIN_TOKENS || !this.isShortEnough(saved.tokens.length)) continue;
      if (!this.costs.isWorthCopying(count - cached, saved.tokens.length)) continue;
      if (best === null || count > best.count) best = { saved, count };
    }
    return best;
  }

  /** Whether a copy of `count` tokens keeps the step short enough for those that wait for its end. */
  isShortEnough(count: number): boolean {
    return this.ops.copies < TIER_COPIES_MAX && this.costs.fitsStep(count);
  }

  /**
   * An idle sequence of `count` tokens is about to be evicted, `own` of which no other holds: it is saved, where that is of use and less
   * valuable ones make room for it. Returns whether it is, or was before.
   */
  save(sequence: Sequence, count: number, own: number, nowMs: number): boolean {
    if (this.budget === 0 || own < TIER_MIN_TOKENS) return false;
    const { cacheSalt, hits, lastUsedMs } = sequence;
    const covering = this.covering(sequence.tokens, count, cacheSalt);
    if (covering) {
      covering.lastUsedMs = Math.max(covering.lastUsedMs, lastUsedMs);
      covering.isPassing = false;
      return true;
    }
    if (!this.isShortEnough(count)) return false;
    if (!this.costs.isWorthCopying(own, count, 2)) {
      this.costs.doubt();
      return false;
    }
    return this.store(sequence, count, hits, lastUsedMs, nowMs);
  }

  /**
   * Whether a running request should stop at its `count`th token for a checkpoint: there is room for one at all, and it would hold
   * enough more than the longest one that the prompt has already.
   */
  wantsCheckpoint(tokens: Int32Array, count: number, cacheSalt: number): boolean {
    if (this.budget === 0 || this.kind.canTrim || this.costs.bytesOf(count) > this.budget) return false;
    const own = count - this.longestWithin(tokens, count, cacheSalt);
    return own >= TIER_MIN_TOKENS && this.costs.isWorthCopying(own, count, 2);
  }

  /** The first `count` tokens of a sequence, which has no more of them now, are saved while their request goes on. */
  checkpoint(sequence: Sequence, count: number, nowMs: number): void {
    const { tokens, cacheSalt } = sequence;
    if (this.wantsCheckpoint(tokens, count, cacheSalt) && this.isShortEnough(count))
      this.store(sequence, count, 0, nowMs, nowMs);
  }

  /** Tokens of the longest saved prefix, or one that is being saved, that is a prefix of the first `count` tokens. */
  private longestWithin(tokens: Int32Array, count: number, cacheSalt: number): number {
    let longest = 0;
    for (const saved of this.bySlot.values()) {
      const { length } = saved.tokens;
      if (saved.cacheSalt !== cacheSalt || length > count || length <= longest) continue;
      if (saved.tokens[length - 1] !== tokens[length - 1]) continue;
      if (commonPrefix(saved.tokens, tokens, length) === length) longest = length;
    }
    return longest;
  }

  /** A prefix of `tokens`, of `least` to `most` tokens, is being saved: what waits for it will find it. */
  isSaving(tokens: Int32Array, least: number, most: number, cacheSalt: number): boolean {
    for (const saved of this.bySlot.values()) {
      const { length } = saved.tokens;
      if (saved.isSaved || saved.cacheSalt !== cacheSalt || length < least || length > most) continue;
      if (commonPrefix(saved.tokens, tokens, length) === length) return true;
    }
    return false;
  }

  private store(sequence: Sequence, count: number, hits: number, lastUsedMs: number, nowMs: number): boolean {
    const tokens = sequence.tokens.slice(0, count);
    const saved = this.newPrefix(tokens, sequence.cacheSalt, this.costs.bytesOf(count), { hits, lastUsedMs });
    if (saved.bytes > this.budget || !this.makeRoom(saved, nowMs)) return false;
    this.counters.hostPrefixSaves++;
    this.copyFrom(sequence, saved);
    return true;
  }

  /** The record being planned copies the sequence. */
  private copyFrom(sequence: Sequence, saved: SavedPrefix): void {
    this.add(saved);
    this.costs.spend(saved.tokens.length);
    this.ops.add(TIER_OP_KIND.save, saved.slot, sequence.id);
  }

  private newPrefix(
    tokens: Int32Array,
    cacheSalt: number,
    bytes: number,
    use: Pick<SavedPrefix, 'hits' | 'lastUsedMs'>,
  ): SavedPrefix {
    const state = { isSaved: false, disk: 'none', isFetched: false, isPassing: false } as const;
    return { slot: ++this.lastSlot, tokens, cacheSalt, bytes, ...use, ...state };
  }

  /** Its bytes are to come. */
  private add(saved: SavedPrefix): void {
    this.bySlot.set(saved.slot, saved);
    this.held += saved.bytes;
    this.fresh += saved.bytes;
  }

  /**
   * An idle sequence of `count` tokens, which stays where it is, is copied on its way to the disk and leaves host memory when it is written. It
   * takes nothing from what is saved; `mayDrop`: but for what is in a file. Returns whether it is copied.
   */
  passOn(sequence: Sequence, count: number, mayDrop: boolean, nowMs: number): boolean {
    const { tokens, cacheSalt, hits, lastUsedMs } = sequence;
    if (this.budget === 0 || count < TIER_MIN_TOKENS || !this.isShortEnough(count)) return false;
    if (this.covers(tokens, count, cacheSalt) || !this.costs.isWorthCopying(count, count, 2)) return false;
    const saved = this.newPrefix(tokens.slice(0, count), cacheSalt, this.costs.bytesOf(count), { hits, lastUsedMs });
    const missing = this.held + saved.bytes - this.budget;
    if (missing > 0 || this.bySlot.size >= TIER_SLOTS_MAX) {
      if (!mayDrop || saved.bytes > this.budget) return false;
      const written = this.removable().filter(({ disk }) => disk === 'written');
      const choice = chooseEvictions(written.map(asPrefix), { cells: 0, bytes: Math.max(missing, 1) }, nowMs);
      if (!choice.fits) return false;
      this.evict(choice.ids);
    }
    saved.isPassing = true;
    this.copyFrom(sequence, saved);
    return true;
  }

  /** Room for a prefix that comes from the disk, most valuable now because somebody waits for it. Returns its slot; 0: there is no room. */
  expect(tokens: Int32Array, cacheSalt: number, stateBytes: number, hits: number, nowMs: number): number {
    const saved = this.newPrefix(tokens, cacheSalt, stateBytes, { hits, lastUsedMs: nowMs });
    if (saved.bytes > this.budget || !this.makeRoom(saved, nowMs)) return 0;
    saved.isFetched = true;
    saved.disk = 'written';
    this.add(saved);
    return saved.slot;
  }

  /** A read came back: `slot` is with the forward worker, or not. */
  readEnded(slot: number, isLoaded: boolean): void {
    const saved = this.bySlot.get(slot);
    if (saved && isLoaded) saved.isSaved = true;
    else if (saved) this.forget(slot);
    // Given up meanwhile, perhaps before the forward worker had it.
    else if (isLoaded) this.ops.add(TIER_OP_KIND.drop, slot, 0);
  }

  /** Something is on its way from the cells to the disk. */
  get hasPassing(): boolean {
    for (const { isPassing } of this.bySlot.values()) if (isPassing) return true;
    return false;
  }

  /** A prefix with all of these tokens is here, or on its way. */
  covers(tokens: Int32Array, count: number, cacheSalt: number): boolean {
    return this.covering(tokens, count, cacheSalt) !== null;
  }

  /** The oldest that the disk tier has not looked at. */
  firstUnwritten(): SavedPrefix | null {
    for (const saved of this.bySlot.values()) if (saved.isSaved && saved.disk === 'none') return saved;
    return null;
  }

  /** What became of it on its way to the disk. What was only passing through goes. */
  diskLooked(slot: number, disk: SavedPrefix['disk']): void {
    const saved = this.bySlot.get(slot);
    if (!saved) return;
    saved.disk = disk;
    if (saved.isPassing && disk !== 'none') this.drop(slot);
  }

  /** A saved prefix that has all of these tokens. */
  private covering(tokens: Int32Array, count: number, cacheSalt: number): SavedPrefix | null {
    for (const saved of this.bySlot.values()) {
      if (saved.cacheSalt !== cacheSalt || saved.tokens[count - 1] !== tokens[count - 1]) continue;
      if (commonPrefix(saved.tokens, tokens, count) === count) return saved;
    }
    return null;
  }

  /** Those for which `newcomer` serves as well go; then less valuable ones, if they are enough. False: nothing of it, and nothing went. */
  private makeRoom(newcomer: SavedPrefix, nowMs: number): boolean {
    const covered = this.kind.canTrim ? this.removable().filter((saved) => isPrefixOf(saved, newcomer)) : [];
    const coveredBytes = covered.reduce((sum, { bytes }) => sum + bytes, 0);
    const missing = this.held - coveredBytes + newcomer.bytes - this.budget;
    const isFull = this.bySlot.size - covered.length >= TIER_SLOTS_MAX;
    const need = { cells: 0, bytes: Math.max(missing, isFull ? 1 : 0) };
    const worth = prefixValue(asPrefix(newcomer), nowMs);
    const others = this.removable()
      .filter((saved) => !covered.includes(saved))
      .map(asPrefix)
      .filter((prefix) => prefixValue(prefix, nowMs) < worth);
    const choice = chooseEvictions(others, need, nowMs);
    if (!choice.fits) return false;
    for (const { slot } of covered) this.drop(slot);
    this.evict(choice.ids);
    return true;
  }

  /** What is being saved has no bytes to give back yet; what is being restored is needed. */
  private removable(): SavedPrefix[] {
    return [...this.bySlot.values()].filter((saved) => (saved.isSaved || saved.isFetched) && saved !== this.pinned);
  }

  /**
   * Copies the matched prefix into `sequence`, which is empty. Where the prompt goes on from its end, it moves there; where the prompt
   * branches off before, or its cells could not be cut back to it later (`keeps`), it stays for others. `isHit`: others are likely to come.
   */
  restore({ saved, count }: SavedMatch, sequence: number, keeps: boolean, isHit: boolean, nowMs: number): void {
    this.costs.spend(saved.tokens.length);
    this.counters.hostPrefixHits++;
    this.counters.hostPrefixHitTokens += count;
    if (saved.isFetched) {
      this.counters.diskPrefixHits++;
      this.counters.diskPrefixHitTokens += count;
      saved.isFetched = false;
    }
    this.ops.add(keeps ? TIER_OP_KIND.restore : TIER_OP_KIND.take, saved.slot, sequence);
    if (keeps) {
      if (isHit) saved.hits++;
      saved.lastUsedMs = nowMs;
    } else {
      this.forget(saved.slot);
    }
  }

  /** 0: it is gone already. */
  tokensOf(slot: number): number {
    return this.bySlot.get(slot)?.tokens.length ?? 0;
  }

  /** A record came back: it saved `slot`, or could not. */
  saveEnded(slot: number, isSaved: boolean): void {
    const saved = this.bySlot.get(slot);
    if (!saved) return;
    if (isSaved) saved.isSaved = true;
    // The step may have failed after the copy was made.
    else this.drop(slot);
  }

  /** A record came back that could not restore `slot`: whatever is the matter with it, it is not tried again. */
  restoreFailed(slot: number): void {
    if (this.bySlot.has(slot)) this.drop(slot);
  }

  /** Gives back what is above the budget, least valuable first. */
  shrink(nowMs: number): void {
    const bytes = this.held - this.budget;
    if (bytes <= 0) return;
    this.evict(chooseEvictions(this.removable().map(asPrefix), { cells: 0, bytes }, nowMs, true).ids);
  }

  /** Everything goes, and nothing new comes before the next budget: the context needs the memory. */
  giveWay(nowMs: number): void {
    this.holdBack(nowMs);
    this.budget = 0;
    this.shrink(nowMs);
  }

  /** The forward worker has put everything away, or does so with the context. */
  clear(): void {
    this.bySlot.clear();
    this.held = 0;
    this.fresh = 0;
    this.ops.clear();
  }

  private evict(slots: readonly number[]): void {
    this.counters.hostPrefixEvictions += slots.length;
    for (const slot of slots) this.drop(slot);
  }

  private drop(slot: number): void {
    this.forget(slot);
    this.ops.add(TIER_OP_KIND.drop, slot, 0);
  }

  private forget(slot: number): void {
    this.held -= this.bySlot.get(slot)?.bytes ?? 0;
    this.bySlot.delete(slot);
  }
}
