import { lineChart, type Series } from '../../shared/svg-chart.js';
import type { BenchResults } from './results.js';
import type { Tally } from './tally.js';

/** A curve needs no more. Chosen: one for each three pixels of the plot. */
const POINTS_MAX = 220;

/** How many requests had their first token, and how many tokens came after the one before, within so many milliseconds. null: nothing to draw. */
export function resultsPicture(results: BenchResults, tally: Tally): string | null {
  const series: Series[] = [];
  const draw = (name: string, points: Array<[number, number]>) => {
    if (points.length > 0) series.push({ name, points: curve(points) });
  };
  draw('time to first token', tally.firstToken.cumulative());
  draw('inter-token latency', tally.interToken.cumulative());
  if (series.length === 0) return null;
  const xs = series.flatMap(({ points }) => points.map(([ms]) => ms));
  const { ttft, itl } = results.goodput?.limits ?? {};
  const limit = (name: string, ms: number | undefined) => {
    // A limit far from all that was measured would squeeze the curves.
    if (ms === undefined || ms < Math.min(...xs) || ms > 2 * Math.max(...xs)) return;
    series.push({
      name: `${name} ≤ ${ms} ms`,
      isLimit: true,
      points: [
        [ms, 0],
        [ms, 100],
      ],
    });
    xs.push(ms);
  };
  limit('ttft', ttft);
  limit('itl', itl);
  return lineChart({
    title: `${results.model}: latencies of ${results.requests.answered} requests`,
    xLabel: 'milliseconds (logarithmic)',
    yLabel: 'per cent within that time',
    xScale: 'log2',
    xTicks: roundNumbers(Math.min(...xs), Math.max(...xs)),
    series,
  });
}

/** From nothing, in per cent, with no more points than a curve needs; the last one always. */
function curve(points: ReadonlyArray<readonly [number, number]>): Array<[number, number]> {
  const every = Math.ceil(points.length / POINTS_MAX);
  const kept = points.filter((_, i) => i % every === 0 || i === points.length - 1);
  return [[kept[0][0], 0], ...kept.map(([ms, share]): [number, number] => [ms, share * 100])];
}

/** 1, 2 and 5 times powers of ten within the range; its ends where there is none. */
function roundNumbers(least: number, most: number): number[] {
  const numbers: number[] = [];
  for (let power = Math.floor(Math.log10(least)); power <= Math.log10(most); power++) {
    for (const factor of [1, 2, 5]) {
      const number = Number((factor * 10 ** power).toPrecision(1));
      if (number >= least && number <= most) numbers.push(number);
    }
  }
  return numbers.length > 0 ? numbers : [Number(least.toPrecision(3))];
}
