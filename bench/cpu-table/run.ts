/**
 * `make bench-cpu`: every workload that the project compares on a CPU, Plimsoll against llama-server of the same engine version as it
 * comes and with the flags that suit the case. Arguments, all optional: --rounds 3, --rows one-client,stall (all of them when left out),
 * --lines plimsoll,default,best,best-2,ceiling (all of them), --model FILE, --name cpu-table. A part of the table is printed, and published
 * only when it is given a name.
 */
import os from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { conditions } from '../measure/machine.js';
import { publish } from '../measure/results.js';
import { formatNumber, median } from '../measure/statistics.js';
import { testModel } from '../peers/servers.js';
import { warmFileCache } from '../tight/contestants.js';
import { ROWS, rowsNamed } from './rows.js';
import type { Line, TableRow } from './table-row.js';
import { flagsOf, linesOf, runTrial, type Trial } from './trial.js';
import { COLUMNS, cells, judge } from './verdicts.js';

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '3' },
    rows: { type: 'string' },
    lines: { type: 'string' },
    model: { type: 'string' },
    name: { type: 'string' },
  },
});

const rows = values.rows === undefined ? [...ROWS] : rowsNamed(values.rows.split(','));
const isWhole = rows.length === ROWS.length && values.lines === undefined;
const name = values.name ?? (isWhole ? 'cpu-table' : null);
const modelPath = values.model ?? testModel('smollm2-q4_0');
/** What Plimsoll takes by itself; only when it is left to choose does the number follow the load. */
const threads = os.availableParallelism();
const where = conditions();
const startedMs = performance.now();
const trials: Trial[] = [];

warmFileCache('plimsoll', modelPath);
warmFileCache('llama-server', modelPath);
for (let round = 1; round <= Number(values.rounds); round++) {
  for (const row of rows) {
    for (const line of inTurn(linesShown(row), round)) {
      const trial = await runTrial({ row, line, round, modelPath, threads });
      trials.push(trial);
      say(trial);
    }
  }
  // After each round: whoever ends the run before its time keeps what is whole.
  publishRounds(round);
}

function linesShown(row: TableRow): Line[] {
  const asked = values.lines?.split(',');
  return linesOf(row).filter((line) => asked === undefined || asked.includes(line));
}

/** Who goes first changes from round to round: what heats or cools the machine meets everyone. */
function inTurn(lines: Line[], round: number): Line[] {
  const first = (round - 1) % lines.length;
  return [...lines.slice(first), ...lines.slice(0, first)];
}

function say({ row, line, round, figures, failure, tookMs, loadAverage }: Trial): void {
  const numbers = Object.entries(figures ?? {}).map(([figure, value]) => `${figure} ${formatNumber(value, 1)}`);
  process.stderr.write(
    `${formatNumber((performance.now() - startedMs) / 1000, 0)} s: round ${round}, ${row}, ${line}: ` +
      `${failure === null ? numbers.join(', ') : `FAILED: ${failure}`} (${formatNumber(tookMs / 1000, 1)} s, load average ${formatNumber(loadAverage, 1)})\n`,
  );
}

function trialsOf(row: TableRow): Trial[] {
  return trials.filter((trial) => trial.row === row.id);
}

function publishRounds(rounds: number): void {
  const verdicts = rows.flatMap((row) =>
    row.checks.map((check) => ({ row, verdict: judge(row, trialsOf(row), check) })),
  );
  const missed = verdicts.filter(({ verdict }) => !verdict.holds);
  const isOpen = verdicts.some(({ verdict }) => verdict.holds === null);
  const result = {
    name: name ?? 'cpu-table',
    title: `Every workload against llama-server on a CPU${isWhole ? '' : ' (a part)'}`,
    method:
      `${path.basename(modelPath)}, ${threads} engine threads. Prompts are token ids and answers greedy and of exactly the given length, but for the ` +
      `chats; a new connection a request. A fresh server for each trial, a warm-up, the same prompts for all, the lines in turns over ${rounds} ` +
      `${rounds === 1 ? 'round' : 'rounds'}. The ratio is that of the medians, ours to the better of llama-server's lines unless said (least and most ` +
      `within a round); the bound is what the project asks for. Values are medians (least to most). Plimsoll ran on ` +
      `${process.env.PLIMSOLL_ENGINE_DIR ? 'the engine that PLIMSOLL_ENGINE_DIR names' : "the npm package's engine"}.`,
    conditions: where,
    columns: COLUMNS,
    rows: verdicts.map(({ row, verdict }) => cells(row, trialsOf(row), verdict)),
    notes: [
      `${verdicts.length - missed.length} of ${verdicts.length} hold${isOpen ? ', and some are open because a trial that they need failed' : ''}.`,
      ...rows.map(flagsNote),
      ...failureNotes(),
      `Load average during the trials: median ${formatNumber(median(trials.map((t) => t.loadAverage)), 1)}; the engine's own ${threads} threads are in it.`,
    ],
    trials,
  };
  publish(result, { isStored: name !== null });
  process.exitCode = missed.length === 0 ? 0 : 1;
}

function flagsNote(row: TableRow): string {
  const labels: Record<Line, string> = {
    plimsoll: 'Plimsoll',
    default: 'llama-server',
    best: 'best',
    'best-2': 'or',
    ceiling: 'ceiling',
  };
  const sets = linesOf(row)
    .filter((line) => line !== 'ceiling')
    .map((line) => {
      const { flags, reason } = flagsOf(row, line);
      return `${labels[line]} ${flags.length === 0 ? '' : `\`${flags.join(' ')}\` `}(${reason})`;
    });
  return `*${row.title}*: ${row.load}. ${sets.join('; ')}.`;
}

function failureNotes(): string[] {
  const failed = trials.filter(({ failure }) => failure !== null);
  if (failed.length === 0) return [];
  const listed = failed.map(({ row, line, round, failure }) => `${row}, ${line}, round ${round}: ${failure}`);
  return [`Failed trials, which are in no median: ${listed.join('; ')}.`];
}
