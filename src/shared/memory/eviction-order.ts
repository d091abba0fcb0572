/** An idle cached prefix. `pinned`: a live or waiting request matched it; evicting it would free nothing and lose the hit. */
export interface IdlePrefix {
  id: number;
  /** Cells that nobody else shares: what its eviction really frees. */
  freesCells: number;
  /** Bytes that go back to the system with it; 0 in a standing pool. */
  freesBytes: number;
  /** Tokens that a hit saves. */
  tokens: number;
  hits: number;
  lastUsedMs: number;
  pinned: boolean;
}

export interface EvictionNeed {
  cells: number;
  bytes: number;
}

export interface EvictionChoice {
  /** Least valuable first: the order to evict in. */
  ids: number[];
  freedCells: number;
  freedBytes: number;
  fits: boolean;
}

/** Age after which a prefix is worth half. Chosen: a chat turn comes within minutes or not at all. */
export const HALF_LIFE_MS = 120_000;

/** Worth of keeping a prefix, for each cell it holds: tokens saved times how likely they are asked for again. */
export function prefixValue(prefix: IdlePrefix, nowMs: number): number {
  const ageMs = Math.max(nowMs - prefix.lastUsedMs, 0);
  const likelihood = (1 + prefix.hits) * 2 ** (-ageMs / HALF_LIFE_MS);
  return (likelihood * prefix.tokens) / Math.max(prefix.freesCells, 1);
}

/** Idle prefixes that may go, least valuable first; equal ones by age, then id, so that the order is always the same. */
export function evictionOrder(prefixes: readonly IdlePrefix[], nowMs: number): IdlePrefix[] {
  return prefixes
    .filter((prefix) => !prefix.pinned && (prefix.freesCells > 0 || prefix.freesBytes > 0))
    .map((prefix) => ({ prefix, value: prefixValue(prefix, nowMs) }))
    .sort((a, b) => a.value - b.value || a.prefix.lastUsedMs - b.prefix.lastUsedMs || a.prefix.id - b.prefix.id)
    .map((entry) => entry.prefix);
}

/**
 * Which prefixes go for `need`: from the least valuable on, stopping as soon as it fits, and then without those that turned out not
 * to be needed. When even all of them are too few, none goes (they would be lost for nothing) unless `evenIfShort`.
 */
export function chooseEvictions(
  prefixes: readonly IdlePrefix[],
  need: EvictionNeed,
  nowMs: number,
  evenIfShort = false,
): EvictionChoice {
  const taken: IdlePrefix[] = [];
  let cells = 0;
  let bytes = 0;
  for (const prefix of evictionOrder(prefixes, nowMs)) {
    if (cells >= need.cells && bytes >= need.bytes) break;
    taken.push(prefix);
    cells += prefix.freesCells;
    bytes += prefix.freesBytes;
  }
  const fits = cells >= need.cells && bytes >= need.bytes;
  if (!fits) return choice(evenIfShort ? taken : [], false);
  // A large prefix at the end may have made small ones before it unnecessary; the most valuable of those are spared first.
  for (let i = taken.length - 1; i >= 0; i--) {
    const without = { cells: cells - taken[i].freesCells, bytes: bytes - taken[i].freesBytes };
    if (without.cells < need.cells || without.bytes < need.bytes) continue;
    cells = without.cells;
    bytes = without.bytes;
    taken.splice(i, 1);
  }
  return choice(taken, true);
}

function choice(taken: readonly IdlePrefix[], fits: boolean): EvictionChoice {
  return {
    ids: taken.map((prefix) => prefix.id),
    freedCells: taken.reduce((sum, prefix) => sum + prefix.freesCells, 0),
    freedBytes: taken.reduce((sum, prefix) => sum + prefix.freesBytes, 0),
    fits,
  };
}
