import { formatNumber, formatSpread, median, spread } from '../measure/statistics.js';
import type { Check, Line, TableRow } from './table-row.js';
import { linesOf, type Trial } from './trial.js';

export interface Verdict {
  check: Check;
  /** The line that it is compared with; null where nothing is, or nothing can be. */
  against: Line | null;
  /** Of the medians, or the worst of the figure itself where no other line counts; NaN when it could not be measured. */
  value: number;
  /** Ratios within each round; empty where no other line counts. */
  byRound: number[];
  /** null: a line that might have been the better one has no figure, or ours has none for another reason than its own failure. */
  holds: boolean | null;
}

const PEERS = ['default', 'best', 'best-2'] as const;

/** Medians of all rounds decide. A failed trial of ours is never made good by the others; one of a line that we are compared with leaves the matter open. */
export function judge(row: TableRow, trials: readonly Trial[], check: Check): Verdict {
  const ours = valuesOf(trials, 'plimsoll', check);
  const hasFailed = trials.some((trial) => trial.line === 'plimsoll' && trial.failure !== null);
  const decided = (holds: boolean | null) => (hasFailed ? false : ours.length === 0 ? null : holds);
  if (check.against === 'none') {
    // What must never happen is judged by its worst trial.
    const value = ours.length === 0 ? Number.NaN : check.better === 'more' ? Math.min(...ours) : Math.max(...ours);
    return { check, against: null, value, byRound: [], holds: decided(isWithin(value, check)) };
  }
  const candidates = candidatesOf(check).filter((line) => linesOf(row).includes(line));
  const against = betterLine(trials, candidates, check);
  if (against === null || ours.length === 0)
    return { check, against, value: Number.NaN, byRound: [], holds: decided(null) };
  const value = median(ours) / median(valuesOf(trials, against, check));
  const isComplete = candidates.every((line) => valuesOf(trials, line, check).length > 0);
  const holds = isWithin(value, check) && !isComplete ? null : isWithin(value, check);
  return { check, against, value, byRound: ratiosByRound(trials, against, check), holds: decided(holds) };
}

function candidatesOf({ against }: Check): readonly Line[] {
  if (against === 'better') return PEERS;
  return against === 'best' ? PEERS.slice(1) : [against as Line];
}

function isWithin(value: number, { better, bound }: Check): boolean {
  return better === 'more' ? value >= bound : value <= bound;
}

/** The line with the better median; null when none has one. */
export function betterLine(trials: readonly Trial[], candidates: readonly Line[], check: Check): Line | null {
  let found: { line: Line; value: number } | null = null;
  for (const line of candidates) {
    const value = median(valuesOf(trials, line, check));
    if (Number.isNaN(value)) continue;
    const isBetter = found === null || (check.better === 'more' ? value > found.value : value < found.value);
    if (isBetter) found = { line, value };
  }
  return found?.line ?? null;
}

function valuesOf(trials: readonly Trial[], line: Line, { figure }: Check): number[] {
  return trials
    .filter((trial) => trial.line === line)
    .map((trial) => trial.figures?.[figure] ?? Number.NaN)
    .filter(Number.isFinite);
}

function ratiosByRound(trials: readonly Trial[], against: Line, { figure }: Check): number[] {
  return trials
    .filter((trial) => trial.line === 'plimsoll')
    .map((ours) => {
      const theirs = trials.find((trial) => trial.line === against && trial.round === ours.round);
      return (ours.figures?.[figure] ?? Number.NaN) / (theirs?.figures?.[figure] ?? Number.NaN);
    })
    .filter(Number.isFinite);
}

export const COLUMNS = [
  'what',
  'ratio',
  'asked for',
  'holds',
  'Plimsoll',
  'llama-server, defaults',
  'llama-server, best flags',
];

/** One line of the published table. */
export function cells(row: TableRow, trials: readonly Trial[], verdict: Verdict): string[] {
  const { check, against, value, byRound, holds } = verdict;
  const cell = (line: Line | null) => {
    const values = line === null ? [] : valuesOf(trials, line, check);
    return values.length === 0 ? '–' : formatSpread(spread(values), check.digits);
  };
  const digits = check.against === 'none' ? check.digits : 2;
  const bound = formatNumber(check.bound, digits) + (check.against === 'none' ? '' : ' ×');
  const found = Number.isNaN(value) ? 'not measured' : formatNumber(value, digits);
  const rounds =
    byRound.length === 0
      ? ''
      : ` (${formatNumber(Math.min(...byRound), 2)} to ${formatNumber(Math.max(...byRound), 2)})`;
  const isCeiling = against === 'ceiling';
  return [
    `${row.title}: ${check.name}`,
    found + rounds,
    `${check.better === 'more' ? '≥' : '≤'} ${bound}`,
    holds === null ? 'open' : holds ? 'yes' : 'NO',
    cell('plimsoll'),
    isCeiling ? '–' : cell('default'),
    isCeiling ? `${cell('ceiling')} llama-batched-bench` : cell(betterLine(trials, PEERS.slice(1), check)),
  ];
}
