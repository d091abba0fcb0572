import fc from 'fast-check';
import t from 'tap';
import { poissonArrivals } from '../../src/main/bench-command/arrivals.js';
import type { ChatAnswer } from '../../src/main/bench-command/chat-client.js';
import { isGood, meanInterTokenMs } from '../../src/main/bench-command/goodput.js';
import { LatencyHistogram } from '../../src/main/bench-command/latency-histogram.js';
import { Tally } from '../../src/main/bench-command/tally.js';

const SHARES = [0.01, 0.5, 0.9, 0.95, 0.99, 1];

t.test('percentiles are those of the sorted values, to half a per cent', async (t) => {
  const durations = fc.array(fc.double({ min: 0.001, max: 80_000_000, noNaN: true }), { minLength: 1, maxLength: 300 });
  fc.assert(
    fc.property(durations, (values) => {
      const histogram = new LatencyHistogram();
      for (const ms of values) histogram.record(ms);
      const sorted = [...values].sort((a, b) => a - b);
      return SHARES.every((share) => {
        const exact = sorted[Math.max(1, Math.ceil(share * values.length)) - 1];
        return Math.abs(histogram.percentileMs(share) / exact - 1) <= 0.005;
      });
    }),
  );
  t.pass();
});

t.test('mean, maximum and count are exact; nothing has none', async (t) => {
  const histogram = new LatencyHistogram();
  t.ok(Number.isNaN(histogram.percentileMs(0.5)) && Number.isNaN(histogram.meanMs) && Number.isNaN(histogram.maxMs));
  t.same(histogram.cumulative(), []);
  for (const ms of [0.5, 1, 2.5, 8]) histogram.record(ms);
  t.same([histogram.count, histogram.meanMs, histogram.maxMs], [4, 3, 8]);
  t.equal(histogram.percentileMs(1), 8, 'never beyond what was recorded');
  for (const bad of [-1, Number.NaN, Number.POSITIVE_INFINITY]) t.throws(() => histogram.record(bad), RangeError);
});

t.test('the distribution rises to the whole', async (t) => {
  const histogram = new LatencyHistogram();
  for (const ms of [5, 1, 5, 100]) histogram.record(ms);
  const points = histogram.cumulative();
  t.same(
    points.map(([, share]) => share),
    [0.25, 0.75, 1],
  );
  t.ok(points.every(([ms], i) => i === 0 || ms > points[i - 1][0]));
});

t.test('Poisson arrivals: the rate, the spread, and the seed', async (t) => {
  const arrivals = [...poissonArrivals(20, 20_000, 3)];
  const gaps = arrivals.map((atMs, i) => atMs - (arrivals[i - 1] ?? 0));
  const mean = gaps.reduce((sum, gap) => sum + gap, 0) / gaps.length;
  t.ok(Math.abs(mean / 50 - 1) < 0.03, `mean gap of ${mean} ms at 20 a second`);
  const deviation = Math.sqrt(gaps.reduce((sum, gap) => sum + (gap - mean) ** 2, 0) / gaps.length);
  t.ok(Math.abs(deviation / mean - 1) < 0.05, 'as exponential waiting times deviate: by their mean');
  t.same([...poissonArrivals(20, 5, 3)], arrivals.slice(0, 5));
  t.not([...poissonArrivals(20, 1, 4)][0], arrivals[0]);
});

function answer(chunkMs: number[], outputTokens: number | null, endMs = (chunkMs.at(-1) ?? 0) + 1): ChatAnswer {
  const usage = outputTokens === null ? null : { promptTokens: 10, cachedTokens: 4, outputTokens };
  return { chunkMs, endMs, text: '', usage };
}

t.test('a good answer is within every limit', async (t) => {
  const ok = answer([400, 440, 480], 3);
  t.ok(isGood(ok, { ttft: 400, itl: 40, e2e: 481 }));
  t.ok(isGood(ok, {}));
  t.notOk(isGood(ok, { ttft: 399 }));
  t.notOk(isGood(ok, { ttft: 500, itl: 39 }));
  t.notOk(isGood(ok, { e2e: 480 }));
  t.ok(isGood(answer([], 0), { ttft: 1, itl: 1 }), 'nothing was late where nothing came');
});

t.test('inter-token latency of an answer is by tokens, where the server counts them', async (t) => {
  t.equal(meanInterTokenMs(answer([100, 200, 300], 5)), 50, 'four tokens after the first in two chunks');
  t.equal(meanInterTokenMs(answer([100, 200, 300], null)), 100);
  t.equal(meanInterTokenMs(answer([100], 1)), 0);
});

t.test('the tally keeps answers, failures and what was not sent apart', async (t) => {
  const tally = new Tally({ ttft: 150 });
  tally.begin(1000);
  for (let i = 0; i < 6; i++) tally.sent();
  tally.answered(answer([100, 110, 120], 3), 0);
  tally.answered(answer([200, 220], null), 1);
  tally.failed({ kind: '503 loading', message: 'first' });
  tally.failed({ kind: '503 loading', message: 'second' });
  tally.failed({ kind: 'timeout', message: '' });
  tally.notSent(2);
  tally.end(3000);
  t.match(tally, {
    answeredCount: 2,
    failedCount: 3,
    notSentCount: 2,
    unfinishedCount: 1,
    goodCount: 1,
    countedAnswers: 1,
    outputTokens: 5,
    chunkCount: 5,
    cachedTokens: 4,
  });
  t.same(tally.failures.get('503 loading'), { count: 2, message: 'first' });
  t.equal(tally.elapsedMs(9000), 2000);
  t.equal(tally.firstToken.count, 2);
  t.equal(tally.interToken.count, 3);
  t.same([tally.firstTokenByTurn.first.count, tally.firstTokenByTurn.later.count], [1, 1]);
});

t.test('made-up error codes do not fill the memory', async (t) => {
  const tally = new Tally(null);
  for (let i = 0; i < 1000; i++) tally.failed({ kind: `400 code${i}`, message: '' });
  t.ok(tally.failures.size <= 21);
  t.equal(
    [...tally.failures.values()].reduce((sum, { count }) => sum + count, 0),
    1000,
  );
});
