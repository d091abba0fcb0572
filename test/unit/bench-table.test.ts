import t from 'tap';
import { rowsNamed } from '../../bench/cpu-table/rows.js';
import { gapsWithin } from '../../bench/cpu-table/stall-row.js';
import type { Check, Line } from '../../bench/cpu-table/table-row.js';
import type { Trial } from '../../bench/cpu-table/trial.js';
import { cells, judge } from '../../bench/cpu-table/verdicts.js';
import { comparisonPicture } from '../../bench/measure/comparison-picture.js';
import { page } from '../../bench/measure/page.js';
import type { BenchResult } from '../../bench/measure/results.js';

const [row] = rowsNamed(['eight-different']);
const RATE: Check = { figure: 'rate', name: 'tokens/s', digits: 1, better: 'more', against: 'better', bound: 1.1 };
const TIME: Check = { figure: 'rate', name: 'ms', digits: 0, better: 'less', against: 'better', bound: 0.65 };

function trials(rates: Partial<Record<Line, Array<number | null>>>): Trial[] {
  return Object.entries(rates).flatMap(([line, values]) =>
    values.map((value, i) => ({
      row: row.id,
      line: line as Line,
      round: i + 1,
      flags: [],
      figures: value === null ? null : { rate: value },
      failure: value === null ? 'not done' : null,
      tookMs: 1,
      loadAverage: 0,
    })),
  );
}

t.test('the ratio is that of the medians, to the better of the lines', async (t) => {
  const all = trials({ plimsoll: [120, 100, 90], default: [50, 50, 50], best: [80, 70, 200], 'best-2': [60, 60, 60] });
  const verdict = judge(row, all, RATE);
  t.match(verdict, { against: 'best', value: 100 / 80, holds: true });
  t.same(verdict.byRound, [120 / 80, 100 / 70, 90 / 200]);
  t.match(judge(row, all, TIME), { against: 'default', value: 2, holds: false });
  t.match(judge(row, all, { ...RATE, against: 'default', bound: 2.1 }), { value: 2, holds: false });
  t.same(cells(row, all, verdict).slice(1), [
    '1.25 (0.45 to 1.50)',
    '≥ 1.10 ×',
    'yes',
    '100.0 (90.0 to 120.0)',
    '50.0 (50.0 to 50.0)',
    '80.0 (70.0 to 200.0)',
  ]);
});

t.test('a failed trial of ours does not hold; a line of theirs without any figure leaves it open', async (t) => {
  const peers = { default: [50], best: [50], 'best-2': [50] };
  t.equal(judge(row, trials({ plimsoll: [100], ...peers }), RATE).holds, true);
  t.equal(judge(row, trials({ plimsoll: [100, null], ...peers }), RATE).holds, false);
  t.equal(judge(row, trials({ plimsoll: [100], ...peers, best: [null] }), RATE).holds, null);
  t.equal(judge(row, trials({ plimsoll: [100], default: [50] }), RATE).holds, null, 'not even tried');
  t.equal(judge(row, trials({ plimsoll: [50], ...peers, best: [null] }), RATE).holds, false, 'it could only get worse');
  t.match(judge(row, trials(peers), RATE), { value: Number.NaN, holds: null });
});

t.test('what must not happen is judged by its worst trial', async (t) => {
  const errors: Check = { figure: 'rate', name: 'errors', digits: 0, better: 'less', against: 'none', bound: 0 };
  t.equal(judge(row, trials({ plimsoll: [0, 0, 0] }), errors).holds, true);
  t.match(judge(row, trials({ plimsoll: [0, 1, 0] }), errors), { value: 1, holds: false });
});

t.test('an unknown row is named', async (t) => {
  t.throws(() => rowsNamed(['one-client', 'none']), /no row none; there are one-client, /);
});

t.test('gaps of a stream: those within the span, and the one that is open at its end', async (t) => {
  t.same(gapsWithin([0, 10, 20, 50, 60], 15, 55), [10, 30, 5]);
  t.same(gapsWithin([0, 10], 20, 100), [90], 'it stands still');
});

const RESULT: BenchResult = {
  name: 'serve',
  title: 'A < B',
  method: 'How.',
  conditions: {
    cpu: 'c',
    cores: 2,
    memoryGib: 4,
    system: 's',
    node: 'v',
    commit: 'x',
    command: 'y',
    loadBefore: 0,
    groupNice: 0,
    date: '2026-01-01',
  },
  columns: ['what', 'ratio', 'Plimsoll', 'llama-server'],
  rows: [
    ['tokens/s', '2.00 (1.90 to 2.10)', '1,000.0 (900.0 to 1,000.0)', '500.0 (500.0 to 500.0)'],
    ['nothing', '', '–', '–'],
  ],
  notes: ['A note.'],
  trials: [],
};

t.test('a picture has a bar for each side, as long as its median', async (t) => {
  const svg = comparisonPicture(RESULT) ?? '';
  const widths = [...svg.matchAll(/<rect x="20" y="\d+" width="([\d.]+)" height="11" fill="#/g)].map((m) =>
    Number(m[1]),
  );
  t.same(widths, [14, 460, 230], 'the legend’s first mark, and the bars');
  t.match(svg, 'tokens/s: 2.00 ×');
  t.match(svg, 'A &lt; B');
  t.notMatch(svg, 'nothing');
  t.equal(comparisonPicture({ ...RESULT, columns: ['what', 'ratio', 'Plimsoll', 'CPU'] }), null);
});

t.test('the page links a picture where there is one, and keeps its order', async (t) => {
  const text = page(
    [RESULT, { ...RESULT, name: 'pipeline', title: 'P' }, { ...RESULT, name: 'serve-x', title: 'X' }],
    new Map([['serve', 'pictures/result-serve.svg']]),
  );
  t.same(
    [...text.matchAll(/^## (.*)$/gm)].map((m) => m[1]),
    ['P', 'A < B', 'X'],
  );
  t.same(
    [...text.matchAll(/^!\[(.*)\]\((.*)\)$/gm)].map((m) => [m[1], m[2]]),
    [['A < B', 'pictures/result-serve.svg']],
  );
});
