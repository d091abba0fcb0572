/**
 * Token ring, forward → main: sampled tokens and notices, in order. 32-bit words.
 *
 * ```
 * tokens:  | count | samples: each TOKEN_SAMPLE_WORDS + 2 × topCount |
 * notices: | count | count × NOTICE_WORDS (batch-wire.ts) |
 * ```
 */
export const TOKEN_TYPE = { tokens: 1, notices: 2 } as const;

export const TOKEN_SAMPLE = {
  request: 0,
  token: 1,
  /** SAMPLE_FLAG bits (step-output.ts). */
  flags: 2,
  /** f32 bits. */
  logprob: 3,
  topCount: 4,
} as const;
export const TOKEN_SAMPLE_WORDS = 5;

export const NOTICE_KIND = {
  /** The request left the queue; a = prompt tokens found in the prefix cache, b = prompt tokens. */
  started: 1,
  /** The request is over without a token that says so; a = FINISH_CODE. */
  finished: 2,
  /** Prefill progress; a = prompt tokens computed so far, b = prompt tokens. */
  progress: 3,
} as const;

/** Why a request ended, in a `finished` notice. */
export const FINISH_CODE = {
  cancelled: 1,
  /** No memory came in time. */
  insufficientMemory: 2,
  /** The request can never fit this plan. */
  neverFits: 3,
  /** The engine failed and the request could not be recomputed. */
  engineFailed: 4,
  /** The waiting queue is full. */
  queueFull: 5,
  draining: 6,
  /** The context is full: the request ends where it stands, like max_tokens. */
  contextFull: 7,
} as const;
