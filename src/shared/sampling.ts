import { GRAMMAR_MAX_BYTES, LOGIT_BIAS_MAX, SAMPLING, SAMPLING_FIXED_WORDS, SAMPLING_FLAG } from './sampling-wire.js';

/** How a request's tokens are chosen. Every field is in range before it gets here (main/http validates). */
export interface SamplingParams {
  /** 0 is greedy. */
  temperature: number;
  /** 0: off. */
  topK: number;
  topP: number;
  minP: number;
  repeatPenalty: number;
  frequencyPenalty: number;
  presencePenalty: number;
  /** Tokens of history for the penalties; −1: all. */
  penaltyLastTokens: number;
  seed: number;
  maxTokens: number;
  ignoreEos: boolean;
  /** −1: none; else alternatives per token. */
  logprobs: number;
  logitBias: ReadonlyArray<readonly [token: number, bias: number]>;
  /** GBNF, or empty. */
  grammar: string;
}

/** The likeliest token each time, one token at most, nothing else switched on: what other settings start from. */
export const GREEDY_SAMPLING: Readonly<SamplingParams> = Object.freeze({
  temperature: 0,
  topK: 0,
  topP: 1,
  minP: 0,
  repeatPenalty: 1,
  frequencyPenalty: 0,
  presencePenalty: 0,
  penaltyLastTokens: 0,
  seed: 0,
  maxTokens: 1,
  ignoreEos: false,
  logprobs: -1,
  logitBias: [],
  grammar: '',
});

const bits = new Float32Array(1);
const bitsAsInt = new Int32Array(bits.buffer);

export function f32Bits(value: number): number {
  bits[0] = value;
  return bitsAsInt[0];
}

export function f32FromBits(word: number): number {
  bitsAsInt[0] = word;
  return bits[0];
}

/** The sampling block of `params`, as 32-bit words (sampling-wire.ts). @throws RangeError past the wire's limits. */
export function encodeSampling(params: SamplingParams): Int32Array {
  const grammar = params.grammar === '' ? null : new TextEncoder().encode(params.grammar);
  const grammarBytes = grammar?.length ?? 0;
  if (params.logitBias.length > LOGIT_BIAS_MAX) throw new RangeError(`more than ${LOGIT_BIAS_MAX} logit biases`);
  if (grammarBytes > GRAMMAR_MAX_BYTES) throw new RangeError(`a grammar of more than ${GRAMMAR_MAX_BYTES} bytes`);
  const biasAt = SAMPLING_FIXED_WORDS;
  const grammarAt = biasAt + params.logitBias.length * 2;
  const words = new Int32Array(grammarAt + ((grammarBytes + 3) >> 2));
  words[SAMPLING.totalWords] = words.length;
  words[SAMPLING.flags] = params.ignoreEos ? SAMPLING_FLAG.ignoreEos : 0;
  words[SAMPLING.seed] = params.seed | 0;
  words[SAMPLING.temperature] = f32Bits(params.temperature);
  words[SAMPLING.topK] = params.topK;
  words[SAMPLING.topP] = f32Bits(params.topP);
  words[SAMPLING.minP] = f32Bits(params.minP);
  words[SAMPLING.repeatPenalty] = f32Bits(params.repeatPenalty);
  words[SAMPLING.frequencyPenalty] = f32Bits(params.frequencyPenalty);
  words[SAMPLING.presencePenalty] = f32Bits(params.presencePenalty);
  words[SAMPLING.penaltyLastTokens] = params.penaltyLastTokens;
  words[SAMPLING.maxTokens] = params.maxTokens;
  words[SAMPLING.logprobs] = params.logprobs;
  words[SAMPLING.biasCount] = params.logitBias.length;
  words[SAMPLING.grammarBytes] = grammarBytes;
  params.logitBias.forEach(([token, bias], i) => {
    words[biasAt + i * 2] = token;
    words[biasAt + i * 2 + 1] = f32Bits(bias);
  });
  if (grammar) new Uint8Array(words.buffer, grammarAt * 4, grammarBytes).set(grammar);
  return words;
}
