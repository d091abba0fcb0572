import type { IdlePrefix } from '../memory/eviction-order.js';
import { commonPrefix } from './sequence-table.js';

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

/** As the order of evictions sees it. */
export function asPrefix({ slot, tokens, bytes, hits, lastUsedMs }: SavedPrefix): IdlePrefix {
  const { length } = tokens;
  return { id: slot, freesCells: length, freesBytes: bytes, tokens: length, hits, lastUsedMs, pinned: false };
}

/** `other` serves for everything that `saved` serves for. */
export function isPrefixOf(saved: SavedPrefix, other: SavedPrefix): boolean {
  const { length } = saved.tokens;
  if (saved.cacheSalt !== other.cacheSalt || saved.tokens[length - 1] !== other.tokens[length - 1]) return false;
  return commonPrefix(saved.tokens, other.tokens, length) === length;
}
