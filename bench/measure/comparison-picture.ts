import { COLOURS, svgDocument, text } from '../../src/shared/svg-chart.js';
import type { BenchResult } from './results.js';

/** Columns that hold one side each of a comparison, ours first. */
const SIDES = [
  'Plimsoll',
  'llama-server',
  'llama-server, defaults',
  'llama-server, best flags',
  'with the line',
  'without',
];

const WIDTH = 760;
const MARGIN = 20;
/** Longest bar; what is right of it belongs to the values. */
const BAR_MAX = 460;
const HEAD = 64;
const LABEL_HEIGHT = 18;
const BAR_HEIGHT = 11;
const BAR_STEP = 14;
const ROW_GAP = 12;
const SPREAD_COLOUR = '#222222';

interface Bar {
  colour: string;
  /** The cell as the table has it. */
  label: string;
  median: number;
  min: number;
  max: number;
}

/**
 * Bars of what each side reached, row by row of the table; a line shows the least and the most. Each row has a scale of its own, because
 * their units differ. null: the result compares no sides.
 */
export function comparisonPicture(result: Pick<BenchResult, 'title' | 'columns' | 'rows'>): string | null {
  const sides = SIDES.filter((side) => result.columns.includes(side));
  if (sides.length < 2) return null;
  const rows = result.rows.map((cells) => ({
    label: labelOf(result.columns, cells),
    bars: bars(result.columns, cells, sides),
  }));
  const shown = rows.filter((row) => row.bars.length > 0);
  if (shown.length === 0) return null;
  let y = HEAD;
  const content = shown.flatMap((row) => {
    const drawn = drawRow(row.label, row.bars, y);
    y += rowHeight(row.bars);
    return drawn;
  });
  return svgDocument(WIDTH, y + MARGIN - ROW_GAP, [
    text(MARGIN, 24, result.title, 'start', 'font-size="15" font-weight="600"'),
    ...legend(sides),
    ...content,
  ]);
}

function rowHeight(bars: readonly Bar[]): number {
  return LABEL_HEIGHT + bars.length * BAR_STEP + ROW_GAP;
}

/** The row's name and its ratio, whose spread the bars show. What has no spread in that column is no ratio of sides. */
function labelOf(columns: readonly string[], cells: readonly string[]): string {
  const ratio = /^([\d,.]+) \(/.exec(cells[columns.indexOf('ratio')] ?? '');
  return ratio === null ? cells[0] : `${cells[0]}: ${ratio[1]} ×`;
}

function bars(columns: readonly string[], cells: readonly string[], sides: readonly string[]): Bar[] {
  return sides.flatMap((side, i) => {
    const label = cells[columns.indexOf(side)];
    const values = parsed(label);
    return values === null ? [] : [{ colour: COLOURS[i], label, ...values }];
  });
}

/** "1,234.5 (1,200.0 to 1,300.0) and a unit", or one number; null for a cell without a number at its beginning. */
function parsed(cell: string): { median: number; min: number; max: number } | null {
  const match = /^(-?[\d,.]+)(?: \((-?[\d,.]+) to (-?[\d,.]+)\))?/.exec(cell);
  if (match === null) return null;
  const number = (digits: string) => Number(digits.replaceAll(',', ''));
  const median = number(match[1]);
  return { median, min: number(match[2] ?? match[1]), max: number(match[3] ?? match[1]) };
}

function drawRow(label: string, bars: readonly Bar[], top: number): string[] {
  const most = Math.max(...bars.map(({ max }) => max)) || 1;
  const x = (value: number) => MARGIN + (Math.max(0, value) / most) * BAR_MAX;
  return [
    text(MARGIN, top + 12, label, 'start'),
    ...bars.flatMap((bar, i) => drawBar(bar, top + LABEL_HEIGHT + i * BAR_STEP, x)),
  ];
}

function drawBar({ colour, label, median, min, max }: Bar, top: number, x: (value: number) => number): string[] {
  const middle = top + BAR_HEIGHT / 2;
  const width = Math.max(1, x(median) - MARGIN);
  return [
    `<rect x="${MARGIN}" y="${top}" width="${width.toFixed(1)}" height="${BAR_HEIGHT}" fill="${colour}"/>`,
    ...(max > min ? [whisker(x(min), x(max), middle)] : []),
    text(x(max) + 8, middle + 4, label, 'start', 'font-size="11"'),
  ];
}

function whisker(from: number, to: number, y: number): string {
  const [left, right] = [from.toFixed(1), to.toFixed(1)];
  const ends = `M${left} ${y - 3}V${y + 3}M${right} ${y - 3}V${y + 3}`;
  return `<path d="M${left} ${y}H${right}${ends}" stroke="${SPREAD_COLOUR}" stroke-width="1.2" fill="none"/>`;
}

function legend(sides: readonly string[]): string[] {
  let at = MARGIN;
  const entries = sides.flatMap((side, i) => {
    const from = at;
    at += 40 + side.length * 6.9;
    return [
      `<rect x="${from}" y="36" width="14" height="11" fill="${COLOURS[i]}"/>`,
      text(from + 20, 46, side, 'start'),
    ];
  });
  return [
    ...entries,
    text(WIDTH - MARGIN, 46, 'rates: longer is better; times: shorter', 'end', 'font-style="italic"'),
  ];
}
