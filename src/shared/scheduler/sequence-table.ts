import type { Request } from './request.js';

/**
 * What one of the context's sequences holds. `free`: nothing. `idle`: the cells of a request that is over, kept as a cached prefix.
 * `busy`: a request's. A sequence that is busy also serves as a prefix for others, as far as its tokens are known and computed.
 */
export interface Sequence {
  readonly id: number;
  state: 'free' | 'idle' | 'busy';
  owner: Request | null;
  /** Tokens of the cells, oldest first; valid up to `cachedCount` when idle, up to the owner's known and computed ones when busy. */
  tokens: Int32Array;
  cachedCount: number;
  cacheSalt: number;
  /** How often a request branched off its cells since they began. */
  hits: number;
  lastUsedMs: number;
}

export interface PrefixMatch {
  sequence: Sequence;
  /** Leading tokens of the prompt that the sequence holds. */
  count: number;
}

const NO_TOKENS = new Int32Array(0);

/** All sequences of the context, and the prefix index over them. */
export class SequenceTable {
  readonly all: readonly Sequence[];

  constructor(count: number) {
    this.all = Array.from({ length: count }, (_, id) => ({
      id,
      state: 'free' as const,
      owner: null,
      tokens: NO_TOKENS,
      cachedCount: 0,
      cacheSalt: 0,
      hits: 0,
      lastUsedMs: 0,
    }));
  }

  firstFree(): Sequence | null {
    return this.all.find((sequence) => sequence.state === 'free') ?? null;
  }

  idle(): Sequence[] {
    return this.all.filter((sequence) => sequence.state === 'idle');
  }

  /**
   * The sequence that shares the longest prefix with `tokens`, or null. At most `limit` tokens count: at least one token of a prompt
   * must be computed to have something to sample from. Where the end of a sequence cannot be removed (`canTrim` false), only an idle
   * sequence that is a whole prefix of the prompt will do.
   */
  longestPrefix(
    tokens: Int32Array,
    limit: number,
    cacheSalt: number,
    canTrim: boolean,
    except: Sequence | null = null,
  ): PrefixMatch | null {
    let best: PrefixMatch | null = null;
    for (const sequence of this.all) {
      if (sequence.state === 'free' || sequence.cacheSalt !== cacheSalt || sequence === except) continue;
      if (!canTrim && sequence.state === 'busy') continue;
      const available = this.reusableCount(sequence);
      const count = commonPrefix(sequence.tokens, tokens, Math.min(available, limit));
      if (!canTrim && count !== available) continue;
      if (
        count > 0 &&
        (best === null || count > best.count || (count === best.count && isBetterHome(sequence, best.sequence)))
      ) {
        best = { sequence, count };
      }
    }
    return best;
  }

  /** Tokens of a sequence that are known and whose cells are computed. */
  reusableCount(sequence: Sequence): number {
    const owner = sequence.owner;
    if (sequence.state === 'busy' && owner) {
      return owner.spec.usesPrefixCache ? Math.min(owner.knownCount, owner.sharableCount) : 0;
    }
    return sequence.cachedCount;
  }

  /** A request takes the sequence; what it holds so far, and its hits, go on. */
  assign(sequence: Sequence, owner: Request, nowMs: number): void {
    sequence.state = 'busy';
    sequence.owner = owner;
    sequence.tokens = owner.tokens;
    sequence.cachedCount = 0;
    sequence.cacheSalt = owner.spec.cacheSalt;
    sequence.lastUsedMs = nowMs;
  }

  /** Takes over what `other`, of an earlier table, holds. */
  adopt(other: Sequence, id: number): void {
    Object.assign(this.all[id], { ...other, id });
  }

  /** The owner grew its token array. */
  refresh(sequence: Sequence): void {
    if (sequence.owner) sequence.tokens = sequence.owner.tokens;
  }

  makeIdle(sequence: Sequence, cachedCount: number, nowMs: number): void {
    sequence.state = 'idle';
    sequence.owner = null;
    sequence.cachedCount = cachedCount;
    sequence.lastUsedMs = nowMs;
  }

  makeFree(sequence: Sequence): void {
    sequence.state = 'free';
    sequence.owner = null;
    sequence.tokens = NO_TOKENS;
    sequence.cachedCount = 0;
    sequence.hits = 0;
  }

  /** A request took its first tokens over. */
  hit(sequence: Sequence, nowMs: number): void {
    sequence.hits++;
    sequence.lastUsedMs = nowMs;
  }
}

/** Of two equal matches the idle one wins (it can be continued in place), then the shorter one (less is lost). */
function isBetterHome(a: Sequence, b: Sequence): boolean {
  if (a.state !== b.state) return a.state === 'idle';
  return a.cachedCount < b.cachedCount;
}

/** Tokens that `a` and `b` have in common from the start, at most `limit`. */
export function commonPrefix(a: Int32Array, b: Int32Array, limit: number): number {
  let i = 0;
  while (i < limit && a[i] === b[i]) i++;
  return i;
}
