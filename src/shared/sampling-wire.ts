/**
 * Sampling block: how one request's tokens are chosen, as 32-bit words. It travels unchanged from main through the submit ring
 * and the batch ring to the addon. `f32` words hold the bits of a 32-bit float. Mirrored in addon/src/layout.h.
 *
 * ```
 * | fixed words (SAMPLING_FIXED_WORDS) | biasCount × (token i32, bias f32) | grammar: UTF-8, grammarBytes, padded to a word |
 * ```
 */
export const SAMPLING = {
  /** Words of the whole block, fixed part included. */
  totalWords: 0,
  /** SAMPLING_FLAG bits. */
  flags: 1,
  /** Seed of this request's own generator. */
  seed: 2,
  /** f32; 0 is greedy. */
  temperature: 3,
  /** 0: off. */
  topK: 4,
  /** f32; 1: off. */
  topP: 5,
  /** f32; 0: off. */
  minP: 6,
  /** f32; 1: off. */
  repeatPenalty: 7,
  /** f32; 0: off. */
  frequencyPenalty: 8,
  /** f32; 0: off. */
  presencePenalty: 9,
  /** Tokens of history that the penalties look at; 0: off; −1: all of the request's tokens. */
  penaltyLastTokens: 10,
  /** Output tokens at most. */
  maxTokens: 11,
  /** −1: no logprobs; else the number of alternatives (0 to TOP_LOGPROBS_MAX). */
  logprobs: 12,
  biasCount: 13,
  grammarBytes: 14,
} as const;
export const SAMPLING_FIXED_WORDS = 16;

export const SAMPLING_FLAG = {
  /** End-of-generation tokens do not end the request and are not sampled. */
  ignoreEos: 1,
} as const;

/** Alternatives a token may report: OpenAI's limit. */
export const TOP_LOGPROBS_MAX = 20;
/** Entries of logit_bias at most; OpenAI allows 300, llama.cpp's clients send more. Chosen. */
export const LOGIT_BIAS_MAX = 1024;
/** Grammar text at most, bytes. Chosen: the largest JSON-schema grammars seen are some 100 kB. */
export const GRAMMAR_MAX_BYTES = 256 * 1024;
