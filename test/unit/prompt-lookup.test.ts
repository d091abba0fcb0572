import t from 'tap';
import { StepTimes } from '../../src/shared/scheduler/chunk-policy.js';
import { bestDraftCount } from '../../src/shared/scheduler/draft-policy.js';
import { PromptLookup } from '../../src/shared/scheduler/prompt-lookup.js';

const draftsOf = (tokens: number[], count: number) => {
  const lookup = new PromptLookup();
  lookup.read(Int32Array.from(tokens), tokens.length);
  return [...lookup.drafts(Int32Array.from(tokens), count)];
};

/** Reads `tokens` one by one, as they are sampled, behind the first `known`. */
function follow(lookup: PromptLookup, tokens: number[], known: number): void {
  const words = Int32Array.from(tokens);
  for (let count = known; count <= tokens.length; count++) lookup.read(words, count);
}

t.test('what followed the last time', async (t) => {
  t.same(draftsOf([1, 2, 3, 4, 5, 6, 9, 1, 2, 3], 4), [4, 5, 6, 9]);
  t.same(draftsOf([1, 2, 3, 4, 8, 1, 2, 3, 5, 8, 1, 2, 3], 2), [5, 8], 'the latest of several');
  t.same(draftsOf([6, 1, 2, 3, 4, 8, 2, 3, 5, 8, 1, 2, 3], 2), [4, 8], 'three tokens of agreement before a later two');
  t.same(draftsOf([2, 3, 5, 8, 2, 3], 2), [5, 8], 'two, where there are no three');
  t.same(draftsOf([7, 3, 5, 8, 2, 3], 2), [], 'one is none');
  t.same(draftsOf([1], 2), []);
});

t.test('a text that repeats is expected to go on repeating', async (t) => {
  t.same(draftsOf([4, 4, 4], 5), [4, 4, 4, 4, 4]);
  t.same(draftsOf([9, 1, 2, 1, 2], 5), [1, 2, 1, 2, 1]);
});

t.test('a right guess is gone on from, although the same words stand elsewhere too', async (t) => {
  const lookup = new PromptLookup();
  const text = [1, 2, 3, 4, 5, 6, 7, 20, 3, 4, 5, 9, 9, 8, 1, 2, 3, 4, 5];
  follow(lookup, text, 16);
  t.same([...lookup.drafts(Int32Array.from(text), 2)], [6, 7]);
});

t.test('expectations follow what was right and what was wrong, at no cost of a step', async (t) => {
  const prompt = [11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28];
  const fresh = new PromptLookup();
  fresh.read(Int32Array.from([...prompt, 11, 12]), prompt.length + 2);
  const before = fresh.expectation(3);
  t.equal(before.length, 3);
  t.ok(before[0] < before[1] && before[1] < before[2], 'sums');

  const copying = new PromptLookup();
  follow(copying, [...prompt, ...prompt, ...prompt.slice(0, 12)], prompt.length + 2);
  t.ok(copying.expectation(3)[0] > before[0], `${copying.expectation(3)[0]} after a copy, ${before[0]} before`);

  const wrong = new PromptLookup();
  const misleading = Array.from({ length: 20 }, (_, i) => [11, 12, 100 + i]).flat();
  follow(wrong, [...prompt, ...misleading, 11, 12], prompt.length + 2);
  t.ok(wrong.expectation(3)[0] < before[0] / 2, `${wrong.expectation(3)[0]} after twenty wrong guesses`);

  const unknown = new PromptLookup();
  unknown.read(Int32Array.from(prompt), prompt.length);
  t.same(unknown.expectation(3), [], 'nothing repeats');
});

t.test('tokens that came while nobody looked are searched, not judged', async (t) => {
  const lookup = new PromptLookup();
  const text = Array.from({ length: 100 }, (_, i) => i);
  lookup.read(Int32Array.from(text), 10);
  lookup.read(Int32Array.from([...text, 40, 41, 42]), 103);
  t.same([...lookup.drafts(Int32Array.from([...text, 40, 41, 42]), 2)], [43, 44]);
});

t.test('drafts are worth their cost, or there are none', async (t) => {
  const sums = (rate: number) => Array.from({ length: 7 }, (_, i) => (rate * (1 - rate ** (i + 1))) / (1 - rate));
  t.equal(bestDraftCount([], 8000, 2000), 0);
  t.equal(bestDraftCount(sums(0.2), 8000, 2000), 0, 'a guess that is seldom right');
  t.equal(bestDraftCount(sums(0.95), 8000, 2000), 7);
  t.ok(bestDraftCount(sums(0.6), 8000, 2000) < bestDraftCount(sums(0.9), 8000, 2000), 'more, the surer they are');
  t.equal(bestDraftCount(sums(0.95), 8000, 9000), 0, 'a row that costs a step');
  t.ok(bestDraftCount(sums(0.6), 3000, 50) > bestDraftCount(sums(0.6), 3000, 600), 'more, the cheaper they are');
  t.equal(bestDraftCount(sums(0.5), 150, 10), 0, 'a step so short that waiting for its result costs more');
});

t.test('a step with drafts tells what one costs, and not how long a decode takes', async (t) => {
  const times = new StepTimes();
  times.record(8000, 1, 0);
  times.record(16_000, 1, 0, 4);
  t.equal(times.decodeMicros, 8000);
  t.equal(times.draftTokenMicros, 2000);
  times.record(90_000, 1, 64, 4);
  t.equal(times.draftTokenMicros, 2000, 'beside a prompt nothing can be told');
});
