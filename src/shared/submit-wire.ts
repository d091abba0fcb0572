/**
 * Submit ring, main → overlap: new requests with their tokens, and cancels. 32-bit words.
 *
 * ```
 * | header | sampling block (sampling-wire.ts) | prompt tokens | boundaries |
 * ```
 */
export const SUBMIT_TYPE = { request: 1, cancel: 2 } as const;

export const SUBMIT = {
  /** Request id: positive, increasing, chosen by main. A cancel record carries this word alone. */
  request: 0,
  promptTokens: 1,
  /** Lower runs first; 0 is the default. */
  priority: 2,
  /** Prefixes are shared only between requests of the same salt. */
  cacheSalt: 3,
  /** SUBMIT_FLAG bits. */
  flags: 4,
  /** Words of the sampling block. */
  samplingWords: 5,
  /** Longest wait for memory before the request is refused, ms; 0: the scheduler's default. */
  maxWaitMs: 6,
  /** Numbers of leading tokens, ascending, at which other prompts may branch off this one. */
  boundaries: 7,
} as const;
export const SUBMIT_HEADER_WORDS = 8;

/** Boundaries of one prompt. Chosen: each that is used costs a copy of the sequence's state and cuts the prompt once more. */
export const SUBMIT_BOUNDARIES_MAX = 4;

/** Boundaries rise, and lie within a prompt of `promptTokens`. @throws RangeError. Asserted where they are written and where they are read. */
export function assertBoundaries(boundaries: readonly number[], promptTokens: number): void {
  const isRising = boundaries.every((count, i) => count > (boundaries[i - 1] ?? 0));
  if (!isRising || (boundaries.at(-1) ?? 0) > promptTokens || boundaries.length > SUBMIT_BOUNDARIES_MAX)
    throw new RangeError(`boundaries ${boundaries.join(', ')} of a prompt of ${promptTokens} tokens`);
}

export const SUBMIT_FLAG = {
  /** Neither take from nor leave in the prefix cache. */
  noPrefixCache: 1,
  /** No drafts are tried on it. */
  noDrafts: 2,
} as const;
