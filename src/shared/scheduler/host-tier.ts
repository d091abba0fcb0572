import { chooseEvictions, type IdlePrefix, prefixValue } from '../memory/eviction-order.js';
import { TIER_COPIES_MAX, TIER_OP_KIND } from '../tier-wire.js';
import type { SchedulerCounters } from './counters.js';
import { commonPrefix, type Sequence } from './sequence-table.js';
import type { TierOps } from './tier-ops.js';

/** A shorter prefix is computed as fast as it is copied there and back, with the bookkeeping. Chosen: one small chunk. */
export const TIER_MIN_TOKENS = 64;
/** What a saved token takes beside its keys and values: position, sequence, and the state's own framing. Derived from the state's format, with room. */
const NOTES_BYTES = 32;
/** What a first copy is expected to do in a microsecond. Chosen: a fast machine's rate, because what is not tried is not measured. */
const ASSUMED_COPY_BYTES_PER_MICRO = 10_000;
/** A copy that is refused as too slow makes the next one a little likelier. Chosen: a rate that was measured in a bad moment is forgotten after some
 *  dozens of evictions. */
const DOUBT = 0.98;
/** Computing must cost this many times what copying costs. Chosen: the copy delays others' tokens, and not each saved prefix is asked for again. */
const WORTH_FACTOR = 2;
/** Prefixes at most: each is looked at for each request that is admitted. Chosen: a plan must not take longer than a tenth of a millisecond for it. */
const TIER_SLOTS_MAX = 256;
/** Readings may be so old: nothing is saved for so long after memory was needed elsewhere. Chosen: as for climbs (rung-policy.ts). */
const QUIET_MS = 1_000;
/** Weight of the newest copy in the running average. Chosen: about the last five count. */
const NEWEST_WEIGHT = 0.2;

/** How a saved state can be used. */
export interface StateKind {
  /** Keys and values of a token. */
  cellBytes: number;
  /** What a state takes beside its tokens' cells. */
  stateBytes: number;
  /** Its end can be removed: it serves for each prefix of its tokens. Else for prompts that begin with all of them. */
  canTrim: boolean;
}

/** A prefix outside the context. Its bytes lie with the forward worker, under the number `slot`. */
export interface SavedPrefix {
  readonly slot: number;
  readonly tokens: Int32Array;
  readonly cacheSalt: number;
  readonly bytes: number;
  hits: number;
  lastUsedMs: number;
  /** The record that saves it has come back, or the read that brings it: it can be restored. */
  isSaved: boolean;
  /** How it stands with the disk tier. `none`: not looked at. `refused`: not worth a file. `written`: a file has all of it. */
  disk: 'none' | 'refused' | 'written';
  /** It comes from the disk, and nobody has taken it yet. */
  isFetched: boolean;
  /** It is in cells as well, and here only on its way to the disk. */
  isPassing: boolean;
}

export interface SavedMatch {
  saved: SavedPrefix;
  /** Leading tokens of the prompt that it holds. */
  count: number;
}

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
  /** Microseconds that this plan's copies may still take. */
  copyBudgetMicros = Number.POSITIVE_INFINITY;
  /** Measured time of computing a prompt token; 0: not measured yet. */
  promptTokenMicros = 0;
  /** About to be restored: the room that this needs must not cost it. */
  pinned: SavedPrefix | null = null;
  private readonly bySlot = new Map<number, SavedPrefix>();
  private held = 0;
  private lastSlot = 0;
  private tokenCopyMicros: number;

  constructor(
    private readonly kind: StateKind,
    private readonly ops: TierOps,
    private readonly counters: SchedulerCounters,
  ) {
    this.tokenCopyMicros = this.tokenBytes / ASSUMED_COPY_BYTES_PER_MICRO;
  }

  private get tokenBytes(): number {
    return this.kind.cellBytes + NOTES_BYTES;
  }

  /** A state of `count` tokens in tokens' worth of bytes: a copy takes as long for what it has beside its cells. */
  private weight(count: number): number {
    return count + this.kind.stateBytes / this.tokenBytes;
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

  /** It is known what computing a token takes. */
  get isMeasured(): boolean {
    return this.promptTokenMicros > 0;
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
      if (!this.isWorthCopying(count - cached, saved.tokens.length)) continue;
      if (best === null || count > best.count) best = { saved, count };
    }
    return best;
  }

  /** `gained` tokens need not be computed for `copies` copies of `count` tokens, and `moreMicros` of other work. */
  isWorthCopying(gained: number, count: number, copies = 1, moreMicros = 0): boolean {
    if (this.promptTokenMicros === 0) return true;
    const copyMicros = copies * this.weight(count) * this.tokenCopyMicros;
    return gained * this.promptTokenMicros >= WORTH_FACTOR * (copyMicros + moreMicros);
  }

  /** Whether a copy of `count` tokens keeps the step short enough for those that wait for its end. */
  isShortEnough(count: number): boolean {
    return this.ops.copies < TIER_COPIES_MAX && this.weight(count) * this.tokenCopyMicros <= this.copyBudgetMicros;
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
    if (!this.isWorthCopying(own, count, 2)) {
      this.tokenCopyMicros *= DOUBT;
      return false;
    }
    return this.store(sequence, count, hits, lastUsedMs, nowMs);
  }

  /**
   * Whether a running request should stop at its `count`th token for a checkpoint: there is room for one at all, and it would hold
   * enough more than the longest one that the prompt has already.
   */
  wantsCheckpoint(tokens: Int32Array, count: number, cacheSalt: number): boolean {
    if (this.budget === 0 || this.kind.canTrim || this.bytesOf(count) > this.budget) return false;
    const own = count - this.longestWithin(tokens, count, cacheSalt);
    return own >= TIER_MIN_TOKENS && this.isWorthCopying(own, count, 2);
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

  private bytesOf(count: number): number {
    return count * this.tokenBytes + this.kind.stateBytes;
  }

  private store(sequence: Sequence, count: number, hits: number, lastUsedMs: number, nowMs: number): boolean {
    const tokens = sequence.tokens.slice(0, count);
    const saved = this.newPrefix(tokens, sequence.cacheSalt, this.bytesOf(count), { hits, lastUsedMs });
    if (saved.bytes > this.budget || !this.makeRoom(saved, nowMs)) return false;
    this.counters.hostPrefixSaves++;
    this.copyFrom(sequence, saved);
    return true;
  }

  /** The record being planned copies the sequence. */
  private copyFrom(sequence: Sequence, saved: SavedPrefix): void {
    this.add(saved);
    this.copyBudgetMicros -= this.weight(saved.tokens.length) * this.tokenCopyMicros;
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
    if (this.covers(tokens, count, cacheSalt) || !this.isWorthCopying(count, count, 2)) return false;
    const saved = this.newPrefix(tokens.slice(0, count), cacheSalt, this.bytesOf(count), { hits, lastUsedMs });
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
    this.copyBudgetMicros -= this.weight(saved.tokens.length) * this.tokenCopyMicros;
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

  /** `copies` copies of `count` tokens together took so long. */
  copied(copies: number, count: number, micros: number): void {
    const tokens = count + copies * this.weight(0);
    if (tokens > 0 && micros > 0) this.tokenCopyMicros += (micros / tokens - this.tokenCopyMicros) * NEWEST_WEIGHT;
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

function asPrefix({ slot, tokens, bytes, hits, lastUsedMs }: SavedPrefix): IdlePrefix {
  const { length } = tokens;
  return { id: slot, freesCells: length, freesBytes: bytes, tokens: length, hits, lastUsedMs, pinned: false };
}

function isPrefixOf(saved: SavedPrefix, other: SavedPrefix): boolean {
  const { length } = saved.tokens;
  if (saved.cacheSalt !== other.cacheSalt || saved.tokens[length - 1] !== other.tokens[length - 1]) return false;
  return commonPrefix(saved.tokens, other.tokens, length) === length;
}
