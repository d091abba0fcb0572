/**
 * Runs every row of a vectors file through the planner, gate, live chunk and probe code that serves.
 * `node build/test/conformance/run.js [VECTORS]`: prints each failing vector and a closing count; exit 1 if any fails.
 */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { runVectors } from './rows.js';
import { parseVectors } from './vectors.js';
import { defaultVectorsPath } from './vectors-path.js';

function main(path: string): number {
  let results: ReturnType<typeof runVectors>;
  try {
    results = runVectors(parseVectors(readFileSync(path, 'utf8')));
  } catch (error) {
    console.error(`${path}: ${error instanceof Error ? error.message : error}`);
    return 1;
  }
  const failed = results.filter((result) => result.problems.length > 0);
  for (const { row, got, problems } of failed) {
    console.log(`FAIL ${row.id} (${row.kind}${row.note ? `: ${row.note}` : ''})`);
    console.log(`  at       ${problems.join(', ')}`);
    console.log(`  expected ${JSON.stringify(row.expected)}`);
    console.log(`  got      ${JSON.stringify(got)}`);
  }
  console.log(`${results.length - failed.length} passed, ${failed.length} failed`);
  return failed.length === 0 ? 0 : 1;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  process.exit(main(process.argv[2] ?? fileURLToPath(defaultVectorsPath())));
}
