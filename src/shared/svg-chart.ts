/** Line charts as SVG text, without a browser. Colours work on light and dark pages alike. */
export interface Series {
  name: string;
  /** Pairs of x and y, in order of x. A y that is not a number leaves a gap. */
  points: ReadonlyArray<readonly [x: number, y: number]>;
  /** A line that must not be crossed is drawn dashed. */
  isLimit?: boolean;
}

export interface Chart {
  title: string;
  xLabel: string;
  yLabel: string;
  series: readonly Series[];
  /** `log2`: every step to the right doubles. */
  xScale?: 'linear' | 'log2';
  /** Where the y axis begins; left out: at 0. */
  yFrom?: number;
  /** Values that the x axis is marked with; left out: round numbers. */
  xTicks?: readonly number[];
  formatX?: (value: number) => string;
  formatY?: (value: number) => string;
  /** Points are marked: few of them, each of its own meaning. */
  hasMarkers?: boolean;
}

const WIDTH = 760;
const HEIGHT = 400;
const PLOT = { left: 70, right: 20, top: 74, bottom: 52 };
/** In the order in which series take them. */
export const COLOURS = ['#2f7ed8', '#e07b00', '#2e9e5b', '#9b59b6', '#c0392b', '#7f8c8d'];
const LIMIT_COLOUR = '#d62728';
const TICKS = 6;

interface Scale {
  (value: number): number;
  ticks: readonly number[];
}

/** @throws RangeError when there is nothing to draw. */
export function lineChart(chart: Chart): string {
  const xs = chart.series.flatMap(({ points }) => points.map(([x]) => x));
  const ys = chart.series.flatMap(({ points }) => points.map(([, y]) => y)).filter(Number.isFinite);
  if (xs.length === 0 || ys.length === 0) throw new RangeError('a chart without points');
  const x = xScale(chart, Math.min(...xs), Math.max(...xs));
  const y = linear(chart.yFrom ?? 0, Math.max(...ys), HEIGHT - PLOT.bottom, PLOT.top);
  const formatX = chart.formatX ?? String;
  const formatY = chart.formatY ?? String;
  return svgDocument(WIDTH, HEIGHT, [
    text(PLOT.left, 24, chart.title, 'start', 'font-size="15" font-weight="600"'),
    ...legend(chart.series),
    ...y.ticks.map((tick) => gridLine(y(tick), formatY(tick))),
    ...x.ticks.map((tick) => text(x(tick), HEIGHT - PLOT.bottom + 18, formatX(tick), 'middle')),
    text((PLOT.left + WIDTH - PLOT.right) / 2, HEIGHT - 12, chart.xLabel, 'middle'),
    `<text transform="translate(16 ${(PLOT.top + HEIGHT - PLOT.bottom) / 2}) rotate(-90)" text-anchor="middle" fill="#444">${escaped(chart.yLabel)}</text>`,
    ...chart.series.flatMap((series, i) => drawSeries(series, i, x, y, chart.hasMarkers ?? false)),
  ]);
}

/** A whole picture on a white ground. */
export function svgDocument(width: number, height: number, content: readonly string[]): string {
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="system-ui, sans-serif" font-size="12">`,
    `<rect width="${width}" height="${height}" rx="6" fill="#ffffff"/>`,
    ...content,
    '</svg>',
    '',
  ].join('\n');
}

function xScale(chart: Chart, least: number, most: number): Scale {
  const to = WIDTH - PLOT.right - 10;
  if (chart.xScale !== 'log2') return linear(least, most, PLOT.left, to, chart.xTicks);
  const inner = linear(Math.log2(least), Math.log2(most), PLOT.left + 10, to);
  const doublings = Math.floor(Math.log2(most / least) + 1e-9) + 1;
  const ticks = chart.xTicks ?? Array.from({ length: doublings }, (_, i) => least * 2 ** i);
  return Object.assign((value: number) => inner(Math.log2(value)), { ticks });
}

function linear(least: number, most: number, from: number, to: number, given?: readonly number[]): Scale {
  const ticks = given ?? roundTicks(least, most);
  const low = given ? least : Math.min(least, ticks[0]);
  const high = given ? most : Math.max(most, ticks[ticks.length - 1]);
  const scale = (value: number) => from + ((value - low) / (high - low || 1)) * (to - from);
  return Object.assign(scale, { ticks });
}

/** Multiples of 1, 2 or 5 times a power of ten, some six of them, around the whole range. */
function roundTicks(least: number, most: number): number[] {
  const rough = (most - least || 1) / TICKS;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5, 10].find((factor) => factor * power >= rough) ?? 10);
  const first = Math.floor(least / step);
  const count = Math.ceil(most / step - 1e-9) - first + 1;
  return Array.from({ length: count }, (_, i) => Number(((first + i) * step).toPrecision(12)));
}

function drawSeries(series: Series, index: number, x: Scale, y: Scale, hasMarkers: boolean): string[] {
  const colour = colourOf(series, index);
  let isDown = false;
  const path = series.points
    .map(([px, py]) => {
      if (!Number.isFinite(py)) {
        isDown = false;
        return '';
      }
      const command = isDown ? 'L' : 'M';
      isDown = true;
      return `${command}${x(px).toFixed(1)} ${y(py).toFixed(1)}`;
    })
    .join('');
  const style = series.isLimit ? 'stroke-dasharray="7 5"' : '';
  const line = `<path d="${path}" fill="none" stroke="${colour}" stroke-width="2" stroke-linejoin="round" ${style}/>`;
  if (!hasMarkers || series.isLimit) return [line];
  const marks = series.points
    .filter(([, py]) => Number.isFinite(py))
    .map(([px, py]) => `<circle cx="${x(px).toFixed(1)}" cy="${y(py).toFixed(1)}" r="3.5" fill="${colour}"/>`);
  return [line, ...marks];
}

/** Names in rows above the plot, as many in a row as fit. */
function legend(series: readonly Series[]): string[] {
  let at = PLOT.left;
  let row = 44;
  return series.flatMap((one, i) => {
    const width = 40 + one.name.length * 6.9;
    if (at + width > WIDTH - PLOT.right) {
      at = PLOT.left;
      row += 16;
    }
    const from = at;
    at += width;
    const style = one.isLimit ? 'stroke-dasharray="5 3"' : '';
    const line = `<line x1="${from}" x2="${from + 18}" y1="${row - 4}" y2="${row - 4}" stroke="${colourOf(one, i)}" stroke-width="3" ${style}/>`;
    return [line, text(from + 23, row, one.name, 'start')];
  });
}

function colourOf(series: Series, index: number): string {
  return series.isLimit ? LIMIT_COLOUR : COLOURS[index % COLOURS.length];
}

function gridLine(at: number, label: string): string {
  const y = at.toFixed(1);
  return (
    `<line x1="${PLOT.left}" x2="${WIDTH - PLOT.right}" y1="${y}" y2="${y}" stroke="#e3e3e3"/>` +
    text(PLOT.left - 8, at + 4, label, 'end')
  );
}

/** One line of text; `content` is escaped, `more` are attributes. */
export function text(x: number, y: number, content: string, anchor: string, more = ''): string {
  return `<text x="${x.toFixed(1)}" y="${y.toFixed(1)}" text-anchor="${anchor}" fill="#444" ${more}>${escaped(content)}</text>`;
}

function escaped(content: string): string {
  return content.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}
