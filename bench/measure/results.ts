import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { comparisonPicture } from './comparison-picture.js';
import type { Conditions } from './machine.js';
import { page, section } from './page.js';

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
const PICTURES_FOLDER = path.join('docs', 'pictures');
const PAGE = path.join('docs', 'benchmarks.md');

/** Prints the result and, unless told not to, stores it and writes docs/benchmarks.md anew. Runs in the repository's root. */
export function publish(result: BenchResult, { isStored = true } = {}): void {
  process.stdout.write(`\n${section(result, null)}\n`);
  if (!isStored) return;
  mkdirSync(RESULTS_FOLDER, { recursive: true });
  // What a server said may name files of the one who measured.
  const text = JSON.stringify(result, null, 2).replaceAll(os.homedir(), '~').replaceAll(process.cwd(), '.');
  writeFileSync(path.join(RESULTS_FOLDER, `${result.name}.json`), `${text}\n`);
  writePage();
}

/** Writes docs/benchmarks.md and a picture of each result that compares sides, from what is stored. Runs in the repository's root. */
export function writePage(): void {
  const results = readdirSync(RESULTS_FOLDER)
    .filter((name) => name.endsWith('.json'))
    .map((name) => JSON.parse(readFileSync(path.join(RESULTS_FOLDER, name), 'utf8')) as BenchResult);
  mkdirSync(PICTURES_FOLDER, { recursive: true });
  const pictures = new Map<string, string>();
  for (const result of results) {
    const svg = comparisonPicture(result);
    if (svg === null) continue;
    const file = `result-${result.name}.svg`;
    writeFileSync(path.join(PICTURES_FOLDER, file), svg);
    pictures.set(result.name, `pictures/${file}`);
  }
  writeFileSync(PAGE, page(results, pictures));
}
