/**
 * Batch record, overlap → forward, and read in place by the addon's `step`. 32-bit words. Mirrored in addon/src/layout.h.
 *
 * ```
 * | header | ops: opCount × OP_WORDS | starts: startCount × (START_WORDS + history + sampling block) |
 * | segments: segmentCount × SEGMENT_WORDS | tokens: tokenCount | notices: noticeCount × NOTICE_WORDS |
 * ```
 * The forward worker applies it in that order: memory is freed and copied first (evict before prefill), samplers are set, then
 * one decode runs over all segments, then every segment with `sample` = 1 gets a token, one with drafts at least one. Notices are for main: they pass through
 * the forward worker so that main sees them in order with the tokens.
 */
export const BATCH_RECORD_TYPE = 1;

export const BATCH_HEADER = {
  stepId: 0,
  /** Context epoch this record was planned for; another epoch's record is refused (its cells are gone). */
  epoch: 1,
  opCount: 2,
  startCount: 3,
  /** Words of all starts together. */
  startWords: 4,
  segmentCount: 5,
  tokenCount: 6,
  noticeCount: 7,
  /** Words of the whole record: written by the producer, asserted by the reader. */
  totalWords: 8,
  /** Engine threads for this step; 0: leave as they are. */
  threads: 9,
} as const;
export const BATCH_HEADER_WORDS = 12;

/** Sequence operation. Positions are [from, to); to = −1: to the end. */
export const OP = { kind: 0, sequence: 1, destination: 2, from: 3, to: 4 } as const;
export const OP_WORDS = 5;
export const OP_KIND = {
  /** Remove cells of `sequence`. */
  remove: 1,
  /** Copy cells of `sequence` to `destination` (shared pool: shares them; private streams: copies the stream). */
  copy: 2,
  /** As remove, and counted: room made before the prefill that needs it. */
  evict: 3,
  /** Forget the sampler of `sequence`: its request was cancelled or is over. Tokens of later placeholders are dropped. */
  stop: 4,
} as const;

/** Start: binds `request` to `sequence` and gives it a sampler. Followed by the history tokens, then the sampling block. */
export const START = {
  sequence: 0,
  request: 1,
  /**
   * Tokens that the penalties may look at, oldest first: the prompt's, then those sampled before. When the request has a grammar and has
   * sampled before, all `sampledBefore` tokens must be here, last: the grammar is replayed over them.
   */
  historyCount: 2,
  /** Tokens this request has already sampled before a preemption or a rebuilt context; 0 for a new request. */
  sampledBefore: 3,
} as const;
export const START_WORDS = 4;

/** Consecutive tokens of one sequence. */
export const SEGMENT = {
  sequence: 0,
  /** Position of the first token. */
  position: 1,
  count: 2,
  /** Index of the first token in the record's tokens; PLACEHOLDER: the token that this sequence sampled last (count 1). */
  tokenIndex: 3,
  /**
   * 1: sample after the last token. More, equal to `count`: the tokens behind the first are drafts. Sampled after each one, as long as what is
   * sampled is the next one; the rest is removed again.
   */
  sample: 4,
  request: 5,
} as const;
export const SEGMENT_WORDS = 6;
export const PLACEHOLDER = -1;

/** Notice to main about a request. Kinds in token-wire.ts. */
export const NOTICE = { request: 0, kind: 1, a: 2, b: 3 } as const;
export const NOTICE_WORDS = 4;
