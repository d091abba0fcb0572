import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { type Conditions, describe } from './machine.js';

/** One benchmark's latest result. The page is made of these files and of nothing else. */
export interface BenchResult {
  name: string;
  title: string;
  /** What is measured and how, in sentences. */
  method: string;
  conditions: Conditions;
  columns: string[];
  rows: string[][];
  /** Sentences below the table. */
  notes: string[];
  /** Every trial's numbers, for whoever wants to look closer. */
  trials: unknown[];
}

const RESULTS_FOLDER = path.join('docs', 'benchmark-results');
const PAGE = path.join('docs', 'benchmarks.md');
const ORDER = ['pipeline', 'serve', 'startup', 'tight', 'pressure', 'attempts', 'prediction', 'line'];

/** Stores the result, prints it, and writes docs/benchmarks.md anew. Runs in the repository's root. */
export function publish(result: BenchResult): void {
  mkdirSync(RESULTS_FOLDER, { recursive: true });
  writeFileSync(path.join(RESULTS_FOLDER, `${result.name}.json`), `${JSON.stringify(result, null, 2)}\n`);
  process.stdout.write(`\n${section(result)}\n`);
  const results = readdirSync(RESULTS_FOLDER)
    .filter((name) => name.endsWith('.json'))
    .map((name) => JSON.parse(readFileSync(path.join(RESULTS_FOLDER, name), 'utf8')) as BenchResult)
    .sort((a, b) => place(a.name) - place(b.name) || a.name.localeCompare(b.name));
  mkdirSync(path.dirname(PAGE), { recursive: true });
  writeFileSync(PAGE, page(results));
}

/** A variant, such as `serve-same-build`, stands beside the benchmark that it is one of. */
function place(name: string): number {
  const at = ORDER.findIndex((known) => name === known || name.startsWith(`${known}-`));
  return at < 0 ? ORDER.length : at;
}

function page(results: BenchResult[]): string {
  const head =
    '# Benchmarks\n\n' +
    'Written by the benchmarks themselves (`make bench-pipeline`, `make bench-serve`, `make bench-startup`) from ' +
    '`docs/benchmark-results/*.json`, which also hold every trial; only the list of attempts (`attempts.json`) is kept by hand. Do not edit.\n';
  return [head, ...results.map(section)].join('\n');
}

function section(result: BenchResult): string {
  const row = (cells: readonly string[]) => `| ${cells.join(' | ')} |`;
  return [
    `## ${result.title}`,
    '',
    result.method,
    '',
    row(result.columns),
    row(result.columns.map(() => '---')),
    ...result.rows.map(row),
    '',
    ...result.notes.flatMap((note) => [note, '']),
    `${describe(result.conditions)}.`,
    '',
  ].join('\n');
}
