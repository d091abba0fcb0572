/**
 * Result ring, forward → overlap: what a step did. 32-bit words.
 *
 * ```
 * | header | samples: sampleCount × RESULT_SAMPLE_WORDS |
 * ```
 */
export const RESULT_TYPE = {
  step: 1,
  /** A new context is ready: only the header, with epoch and its sizes. */
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
} as const;
export const RESULT_HEADER_WORDS = 8;

export const RESULT_SAMPLE = { sequence: 0, request: 1, token: 2, flags: 3 } as const;
export const RESULT_SAMPLE_WORDS = 4;
