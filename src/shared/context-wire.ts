/**
 * Context record, overlap → forward, in the batch ring: replace the context by another of the ladder, or put it away. Sent only with no
 * step in flight. 32-bit words; answered by a RESULT_TYPE.context record with the sequences that were carried over.
 *
 * ```
 * | header | sequences to carry over: keepCount × KEPT_WORDS |
 * ```
 */
export const CONTEXT_RECORD_TYPE = 2;

export const CONTEXT_HEADER = {
  /** Epoch of the new context. */
  epoch: 0,
  /** Index in the ladder; RUNG_NONE: free the context and make no other. */
  rung: 1,
  keepCount: 2,
  /** So many of them, the first, are copied in memory; the others go through files. */
  copyCount: 3,
  /** Writing those may take so long, and all of them so many MiB. */
  spillMs: 4,
  spillMib: 5,
  /** MiB of them that may stay in the system's file cache. */
  cacheMib: 6,
} as const;
export const CONTEXT_HEADER_WORDS = 7;

/** Of each sequence: its number in the old context, and in the new one. */
export const KEPT_WORDS = 2;
export const RUNG_NONE = -1;
