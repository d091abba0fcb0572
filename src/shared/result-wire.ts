/**
 * Result ring, forward → overlap: what a step did. 32-bit words.
 *
 * ```
 * step:    | header | samples: sampleCount × RESULT_SAMPLE_WORDS | slots that could not be saved or restored: failedCopies words |
 * context: | header | sequences that were carried over: sampleCount words |
 * ```
 */
export const RESULT_TYPE = {
  step: 1,
  /** A new context stands, or none (context-wire.ts); stepId is 0. */
  context: 2,
} as const;

export const RESULT = {
  stepId: 0,
  epoch: 1,
  /** STEP_STATUS. */
  status: 2,
  sampleCount: 3,
  decodedTokens: 4,
  /** Microseconds of the whole step, record taken to results published. */
  stepMicros: 5,
  kvUsedTokens: 6,
  /** For RESULT_TYPE.context: cells of the pool (shared) or of one stream (private). */
  contextTokens: 7,
  /** For RESULT_TYPE.context: its index in the ladder, or RUNG_NONE. */
  rung: 8,
  failedCopies: 9,
  /** Of stepMicros, those that saves and restores of the host tier took. */
  copyMicros: 10,
} as const;
export const RESULT_HEADER_WORDS = 11;

export const RESULT_SAMPLE = { sequence: 0, request: 1, token: 2, flags: 3 } as const;
export const RESULT_SAMPLE_WORDS = 4;
