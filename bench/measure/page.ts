import { describe } from './machine.js';
import type { BenchResult } from './results.js';

const ORDER = [
  'pipeline',
  'cpu-table',
  'serve',
  'startup',
  'tight',
  'pressure',
  'attempts',
  'prediction',
  'line',
  'speculation',
];

/** docs/benchmarks.md. `pictures`: where a result's picture lies, seen from the page. */
export function page(results: readonly BenchResult[], pictures: ReadonlyMap<string, string>): string {
  const head =
    '# Benchmarks\n\n' +
    'Written by the benchmarks themselves (`make bench-cpu`, `make bench-pipeline`, `make bench-serve`, `make bench-startup`; `make bench-page` ' +
    'writes it anew) from `docs/benchmark-results/*.json`, which also hold every trial; only the lists of attempts (`attempts*.json`) are kept ' +
    'by hand. Do not edit.\n';
  const sorted = [...results].sort((a, b) => place(a.name) - place(b.name) || a.name.localeCompare(b.name));
  return [head, ...sorted.map((result) => section(result, pictures.get(result.name) ?? null))].join('\n');
}

/** A variant, such as `serve-same-build`, stands beside the benchmark that it is one of. */
function place(name: string): number {
  const at = ORDER.findIndex((known) => name === known || name.startsWith(`${known}-`));
  return at < 0 ? ORDER.length : at;
}

export function section(result: BenchResult, picture: string | null): string {
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
    ...(picture === null ? [] : [`![${result.title}](${picture})`, '']),
    ...result.notes.flatMap((note) => [note, '']),
    `${describe(result.conditions)}.`,
    '',
  ].join('\n');
}
