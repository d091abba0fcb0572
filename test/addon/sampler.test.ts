import fc from 'fast-check';
import t from 'tap';
import { loadNativeAddon } from '../../src/shared/native-addon.js';
import { encodeSampling, type SamplingParams } from '../../src/shared/sampling.js';
import { SAMPLE_FLAG } from '../../src/shared/step-output.js';
import { GREEDY } from '../support/batch-record.js';
import { referenceSampler } from './reference-sampler.js';

const { addon } = loadNativeAddon();

function sample(
  logits: Float32Array,
  params: Partial<SamplingParams>,
  history: number[] = [],
  index = 0,
  ends: number[] = [],
) {
  const block = encodeSampling({ ...GREEDY, ...params });
  return addon.sampleLogits(logits, block, Int32Array.from(history), index, Int32Array.from(ends));
}

/** Rows of distinct logits: where two are equal, the order of rounding decides, and that is nobody's promise. */
function randomRow(seed: number, count: number): Float32Array {
  let state = seed >>> 0 || 1;
  return Float32Array.from({ length: count }, (_, index) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    // A few tokens stand out, as in a real row.
    return (state / 2 ** 32) * 12 - 6 + (state % 97 === 0 ? 5 : 0) + index * 1e-6;
  });
}

const rows = fc.record({
  seed: fc.integer({ min: 1, max: 1e9 }),
  count: fc.constantFrom(3, 31, 32, 33, 1023, 1024, 1025, 3000),
});
const histories = fc.array(fc.integer({ min: 0, max: 2 }), { maxLength: 40 });

t.test('greedy with biases and penalties takes the token that the plain reference takes', async () => {
  const params = fc.record({
    repeatPenalty: fc.constantFrom(1, 1.1, 2, 0.5),
    frequencyPenalty: fc.constantFrom(0, 0.7, -0.5),
    presencePenalty: fc.constantFrom(0, 1.5, -2),
    penaltyLastTokens: fc.constantFrom(0, 1, 5, 64, -1),
    logitBias: fc.constantFrom(
      [],
      [[0, 9.5]],
      [
        [1, -100],
        [2, 12.25],
      ],
    ) as fc.Arbitrary<[number, number][]>,
    ignoreEos: fc.boolean(),
  });
  fc.assert(
    fc.property(rows, histories, params, ({ seed, count }, history, chosen) => {
      const logits = randomRow(seed, count);
      const expected = referenceSampler(logits, { ...GREEDY, ...chosen }, history, [0]);
      const actual = sample(logits, chosen, history, 0, [0]);
      return actual.token === expected.candidates[0].token;
    }),
    { numRuns: 400 },
  );
});

t.test('logprobs are of the whole vocabulary, before anything is changed', async (t) => {
  for (const count of [3, 1000, 5000]) {
    const logits = randomRow(count, count);
    const { logprobs } = referenceSampler(logits, GREEDY, []);
    const best = [...logprobs.keys()].sort((a, b) => logprobs[b] - logprobs[a]).slice(0, 5);
    const actual = sample(logits, { logprobs: 5, logitBias: [[1, 50]], temperature: 0 });
    t.equal(actual.token, 1);
    t.ok(Math.abs(actual.logprob - logprobs[1]) < 1e-4, 'the biased token has the logprob that the model gave it');
    t.same(
      actual.top.map(([token]) => token),
      best.slice(0, actual.top.length),
    );
    for (const [token, logprob] of actual.top) t.ok(Math.abs(logprob - logprobs[token]) < 1e-4);
  }
  t.same(sample(randomRow(1, 40), { logprobs: 0 }).top, []);
  t.ok(Number.isNaN(sample(randomRow(1, 40), {}).logprob), 'none was asked for');
});

t.test('only what top-k, top-p and min-p leave is drawn, and as often as it should be', async (t) => {
  const cases: Partial<SamplingParams>[] = [
    { temperature: 1 },
    { temperature: 0.5, topK: 7 },
    { temperature: 2, topK: 50, topP: 0.8 },
    { temperature: 1, topP: 0.6 },
    { temperature: 1.3, topP: 0.95, minP: 0.2 },
    { temperature: 1, minP: 0.4 },
    { temperature: 0.8, topK: 20, minP: 0.05, topP: 0.9 },
    { temperature: 1, topK: 1 },
    { temperature: 1, topP: 1e-6 },
  ];
  const draws = 2000;
  for (const count of [40, 2500]) {
    const logits = randomRow(count + 5, count);
    for (const params of cases) {
      const { candidates } = referenceSampler(logits, { ...GREEDY, ...params }, []);
      const expected = new Map(candidates.map(({ token, probability }) => [token, probability]));
      const counts = new Map<number, number>();
      for (let index = 0; index < draws; index++) {
        const { token } = sample(logits, { ...params, seed: 42 }, [], index);
        counts.set(token, (counts.get(token) ?? 0) + 1);
      }
      t.ok(
        [...counts.keys()].every((token) => expected.has(token)),
        `members of ${JSON.stringify(params)}`,
      );
      // Seeds are fixed, so this never flickers; five standard deviations hold for any honest generator.
      for (const { token, probability } of candidates.slice(0, 5)) {
        const deviation = Math.sqrt(draws * probability * (1 - probability)) + 1;
        t.ok(
          Math.abs((counts.get(token) ?? 0) - draws * probability) < 5 * deviation,
          `frequency in ${JSON.stringify(params)}`,
        );
      }
    }
  }
});

t.test('a row whose mass lies far below its best is not cut short', async (t) => {
  // The best has an eighth of the mass; the rest is spread over tokens whose logits are nine below.
  const logits = new Float32Array(60_000);
  logits[17] = 9;
  const draws = Array.from(
    { length: 400 },
    (_, index) => sample(logits, { temperature: 1, topP: 0.5 }, [], index).token,
  );
  const best = draws.filter((token) => token === 17).length;
  t.ok(best > 60 && best < 140, `${best} of 400; a quarter is expected`);
  t.ok(
    draws.every((token) => token < 30_000),
    'half of the mass, lower tokens first where logits are equal',
  );
});

t.test('of equal logits the lower token comes first', async (t) => {
  const logits = Float32Array.from({ length: 2000 }, (_, index) => (index % 500 === 77 ? 5 : 1));
  t.equal(sample(logits, {}).token, 77);
  t.same(
    sample(logits, { logprobs: 6 }).top.map(([token]) => token),
    [77, 577, 1077, 1577, 0, 1],
  );
  for (let index = 0; index < 30; index++)
    t.ok([77, 577].includes(sample(logits, { temperature: 1, topK: 2 }, [], index).token));
});

t.test('a seed and a place give the same token again; another place another draw', async (t) => {
  const logits = randomRow(9, 4000);
  const draw = (seed: number, index: number) => sample(logits, { temperature: 1.5, seed }, [], index).token;
  const first = Array.from({ length: 20 }, (_, index) => draw(7, index));
  t.same(
    first,
    Array.from({ length: 20 }, (_, index) => draw(7, index)),
  );
  t.not(new Set(first).size, 1);
  t.strictNotSame(
    first,
    Array.from({ length: 20 }, (_, index) => draw(8, index)),
  );
});

t.test('ends: end of generation, the last token, and both', async (t) => {
  const logits = Float32Array.from([0, 3, 1]);
  t.equal(sample(logits, { maxTokens: 10 }, [], 0, [1]).flags, SAMPLE_FLAG.endOfGeneration);
  t.equal(sample(logits, { maxTokens: 10 }, [], 9, []).flags, SAMPLE_FLAG.maxTokens);
  t.equal(sample(logits, { maxTokens: 1 }, [], 0, [1]).flags, SAMPLE_FLAG.maxTokens | SAMPLE_FLAG.endOfGeneration);
  t.equal(sample(logits, { maxTokens: 10, ignoreEos: true }, [], 0, [1]).token, 2);
});

t.test('rows that mean nothing fail the request; rows with forbidden tokens do not', async (t) => {
  const { samplerFailed } = SAMPLE_FLAG;
  const infinity = Number.POSITIVE_INFINITY;
  t.equal(sample(Float32Array.from([0, Number.NaN, 1]), {}).flags, samplerFailed);
  t.equal(sample(Float32Array.from([0, infinity, 1]), { temperature: 1 }).flags, samplerFailed);
  t.equal(sample(Float32Array.from([-infinity, -infinity]), {}).flags, samplerFailed);
  t.equal(sample(Float32Array.from([1, 2]), { ignoreEos: true }, [], 0, [0, 1]).flags, samplerFailed, 'nothing left');
  for (const params of [
    {},
    { temperature: 1 },
    { temperature: 1, topK: 2 },
    { temperature: 1, topP: 0.999 },
    { temperature: 1, minP: 0.001 },
  ]) {
    for (let index = 0; index < 50; index++) {
      const { token, flags } = sample(
        Float32Array.from([-infinity, 1, -infinity, 0.5]),
        { ...params, maxTokens: 1000 },
        [],
        index,
      );
      t.ok((token === 1 || token === 3) && flags === 0);
    }
  }
});

t.test('parameters that mean nothing fail the request and nothing else', async (t) => {
  const logits = Float32Array.from([0, 1]);
  const broken: Partial<SamplingParams>[] = [
    { temperature: -1 },
    { temperature: Number.NaN },
    { topP: 0 },
    { topP: 1.5 },
    { minP: -0.1 },
    { topK: -1 },
    { repeatPenalty: 0 },
    { frequencyPenalty: Number.POSITIVE_INFINITY },
    { logprobs: 21 },
    { penaltyLastTokens: -2 },
    { logitBias: [[2, 1]] },
    { logitBias: [[0, Number.NaN]] },
  ];
  for (const params of broken) t.equal(sample(logits, params).flags, SAMPLE_FLAG.samplerFailed, JSON.stringify(params));
  const history = { penaltyLastTokens: 4, presencePenalty: 1 };
  t.equal(sample(logits, history, [7]).flags, SAMPLE_FLAG.samplerFailed, 'a token of the history that does not exist');
});

t.test('very small and very large temperatures are the limits they stand for', async (t) => {
  const logits = randomRow(3, 2000);
  const best = referenceSampler(logits, GREEDY, []).candidates[0].token;
  for (const params of [{}, { topK: 40 }, { topP: 0.9 }, { minP: 0.1 }]) {
    t.equal(sample(logits, { ...params, temperature: 1e-38 }, [], 3).token, best);
    t.ok(sample(logits, { ...params, temperature: 1e30 }, [], 3).token >= 0);
  }
});
