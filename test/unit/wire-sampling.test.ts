import fc from 'fast-check';
import t from 'tap';
import { encodeSampling, f32Bits, f32FromBits, type SamplingParams } from '../../src/shared/sampling.js';
import {
  GRAMMAR_MAX_BYTES,
  LOGIT_BIAS_MAX,
  SAMPLING,
  SAMPLING_FIXED_WORDS,
  SAMPLING_FLAG,
} from '../../src/shared/sampling-wire.js';
import { GREEDY } from '../support/batch-record.js';

/** The block read back as the addon reads it. */
function decodeSampling(words: Int32Array): SamplingParams {
  const biasCount = words[SAMPLING.biasCount];
  const grammarAt = SAMPLING_FIXED_WORDS + biasCount * 2;
  const grammar = new Uint8Array(words.buffer, words.byteOffset + grammarAt * 4, words[SAMPLING.grammarBytes]);
  return {
    temperature: f32FromBits(words[SAMPLING.temperature]),
    topK: words[SAMPLING.topK],
    topP: f32FromBits(words[SAMPLING.topP]),
    minP: f32FromBits(words[SAMPLING.minP]),
    repeatPenalty: f32FromBits(words[SAMPLING.repeatPenalty]),
    frequencyPenalty: f32FromBits(words[SAMPLING.frequencyPenalty]),
    presencePenalty: f32FromBits(words[SAMPLING.presencePenalty]),
    penaltyLastTokens: words[SAMPLING.penaltyLastTokens],
    seed: words[SAMPLING.seed] >>> 0,
    maxTokens: words[SAMPLING.maxTokens],
    ignoreEos: (words[SAMPLING.flags] & SAMPLING_FLAG.ignoreEos) !== 0,
    logprobs: words[SAMPLING.logprobs],
    logitBias: Array.from({ length: biasCount }, (_, i): [number, number] => [
      words[SAMPLING_FIXED_WORDS + i * 2],
      f32FromBits(words[SAMPLING_FIXED_WORDS + i * 2 + 1]),
    ]),
    grammar: new TextDecoder().decode(grammar),
  };
}

const f32 = fc.float({ noNaN: true, min: -100, max: 100 });
const params: fc.Arbitrary<SamplingParams> = fc.record({
  temperature: f32,
  topK: fc.nat(),
  topP: f32,
  minP: f32,
  repeatPenalty: f32,
  frequencyPenalty: f32,
  presencePenalty: f32,
  penaltyLastTokens: fc.integer({ min: -1, max: 4096 }),
  seed: fc.integer({ min: 0, max: 2 ** 32 - 1 }),
  maxTokens: fc.integer({ min: 1, max: 2 ** 31 - 1 }),
  ignoreEos: fc.boolean(),
  logprobs: fc.integer({ min: -1, max: 20 }),
  logitBias: fc.array(fc.tuple(fc.nat(300_000), f32), { maxLength: 20 }),
  grammar: fc.string({ unit: 'grapheme', maxLength: 50 }),
});

t.test('a sampling block read back is what was written', async (t) => {
  fc.assert(
    fc.property(params, (given) => {
      const words = encodeSampling(given);
      if (words[SAMPLING.totalWords] !== words.length) throw new Error('totalWords is not the length');
      t.same(decodeSampling(words), given);
    }),
    { numRuns: 200 },
  );
});

t.test('a block without biases and grammar is the fixed part alone', async (t) => {
  t.equal(encodeSampling(GREEDY).length, SAMPLING_FIXED_WORDS);
});

t.test('the limits of the wire hold', async (t) => {
  const biases = (count: number) => Array.from({ length: count }, (_, i): [number, number] => [i, 1]);
  t.equal(encodeSampling({ ...GREEDY, logitBias: biases(LOGIT_BIAS_MAX) })[SAMPLING.biasCount], LOGIT_BIAS_MAX);
  t.throws(() => encodeSampling({ ...GREEDY, logitBias: biases(LOGIT_BIAS_MAX + 1) }), RangeError);
  const grammar = 'é'.repeat(GRAMMAR_MAX_BYTES / 2);
  t.equal(encodeSampling({ ...GREEDY, grammar })[SAMPLING.grammarBytes], GRAMMAR_MAX_BYTES);
  t.throws(() => encodeSampling({ ...GREEDY, grammar: `${grammar}x` }), RangeError, 'bytes count, not characters');
});

t.test('float bits survive the 32-bit word', async (t) => {
  for (const value of [0, 1, 0.5, -2.25, 3.4028234663852886e38, Number.POSITIVE_INFINITY])
    t.equal(f32FromBits(f32Bits(value)), value);
  t.equal(f32Bits(1), 0x3f800000);
});
