/**
 * What one engine step writes, 32-bit words, into a buffer that the forward worker owns. Mirrored in addon/src/layout.h.
 * The forward worker turns it into one result record and one token record.
 *
 * ```
 * | header | samples: sampleCount × SAMPLE_WORDS |
 * ```
 */
import { TOP_LOGPROBS_MAX } from './sampling-wire.js';

export const STEP_OUT = {
  status: 0,
  sampleCount: 1,
  /** Tokens that went through the model. */
  decodedTokens: 2,
  /** Microseconds in decode, and in sampling. */
  decodeMicros: 3,
  sampleMicros: 4,
  /** KV cells in use after the step (all sequences; shared cells once). */
  kvUsedTokens: 5,
  /** The engine's own return code when status is not OK. */
  engineCode: 6,
  /** Placeholders that were skipped because their sequence had ended. */
  droppedCount: 7,
} as const;
export const STEP_OUT_HEADER_WORDS = 8;

export const STEP_STATUS = {
  ok: 0,
  /** No KV slot for the batch; the state is as before the step. */
  noKvSlot: 1,
  /** The abort flag was raised; processed parts stay in memory. */
  aborted: 2,
  /** The record was malformed or of another epoch; nothing was done. */
  invalidRecord: 3,
  /** Decode failed: the step's results are discarded and the context must be made anew. */
  failed: 4,
} as const;

export const SAMPLE = {
  sequence: 0,
  request: 1,
  token: 2,
  flags: 3,
  /** f32 bits; NaN when none was asked for. */
  logprob: 4,
  /** Alternatives that follow, best first: (token i32, logprob f32) each. */
  topCount: 5,
  top: 6,
} as const;
/** Fixed stride: the addon's threads write their samples independently. */
export const SAMPLE_WORDS = 6 + 2 * TOP_LOGPROBS_MAX;

export const SAMPLE_FLAG = {
  /** The token ends generation (end of sequence or turn). It is not part of the text. */
  endOfGeneration: 1,
  /** The request has reached maxTokens with this token. */
  maxTokens: 2,
  /** The sampler failed (its grammar, say): the request is over with an error. */
  samplerFailed: 4,
} as const;
/** Any of these: the sequence is done, and its later placeholders are dropped by the engine without asking anyone. */
export const SAMPLE_FLAGS_DONE = 7;

/** Words of an output buffer for `sequences` samples. */
export function stepOutputWords(sequences: number): number {
  return STEP_OUT_HEADER_WORDS + sequences * SAMPLE_WORDS;
}
