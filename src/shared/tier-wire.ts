/**
 * What a batch record asks of the host tier: words behind its `totalWords`, up to the end of the record. The engine never sees them; the
 * forward worker obeys. 32-bit words, `TIER_OP_WORDS` an operation.
 *
 * ```
 * | batch record: totalWords (batch-wire.ts) | tier operations |
 * ```
 * Drops and saves are done before the step, in order: what the step evicts can still be copied, into memory that was given back just before.
 * Restores are done after it: their sequences are emptied by the step's operations, and no segment of the record is theirs.
 */
export const TIER_OP = {
  kind: 0,
  /** Number of a saved prefix. Numbers are not used again. */
  slot: 1,
  /** Sequence of the context; 0 for a drop. */
  sequence: 2,
} as const;
export const TIER_OP_WORDS = 3;

export const TIER_OP_KIND = {
  /** Copy the cells of `sequence` into `slot`. */
  save: 1,
  /** Copy `slot` into the cells of `sequence`, which is empty. */
  restore: 2,
  /** As restore, and the slot's memory goes back whether it could be restored or not. */
  take: 3,
  /** Give the slot's memory back. One that does not exist is no mistake: a save may have failed. */
  drop: 4,
} as const;

/** Saves and restores in one record: their failures are listed in its result. Chosen: each takes milliseconds. */
export const TIER_COPIES_MAX = 16;
/** Operations in one record; drops over it wait for the next. Chosen. */
export const TIER_OPS_MAX = 64;
