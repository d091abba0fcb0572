// Runs the compiled tests, layer by layer, and prints "N passed, N failed, N skipped" as its last line.
//
//   node scripts/run-tests.mjs                     all layers
//   node scripts/run-tests.mjs unit http           some layers
//   node scripts/run-tests.mjs unit --only=ring    files whose path contains "ring"
import { existsSync, readdirSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { runSteps, StepError } from './steps.mjs';
import { runTestFile } from './test-file.mjs';

process.chdir(join(dirname(fileURLToPath(import.meta.url)), '..'));

// Files that own the device or measure the process run alone. Time-outs are chosen: five times what the slowest file needs on
// two idle cores, so that a busy machine does not fail a test and a hang still ends.
const layers = {
  unit: { jobs: Math.min(2, availableParallelism()), timeoutMs: 120_000 },
  addon: { jobs: 1, timeoutMs: 180_000 },
  pipeline: { jobs: 1, timeoutMs: 180_000 },
  http: { jobs: 1, timeoutMs: 180_000 },
  download: { jobs: 1, timeoutMs: 180_000 },
  supervisor: { jobs: 1, timeoutMs: 180_000 },
  model: { jobs: 1, timeoutMs: 600_000 },
  tight: { jobs: 1, timeoutMs: 1_800_000 },
  conformance: { jobs: 1, timeoutMs: 180_000 },
};

await runSteps(async () => {
  const names = process.argv.slice(2).filter((word) => !word.startsWith('--'));
  const only = process.argv.find((word) => word.startsWith('--only='))?.slice('--only='.length) ?? '';
  const unknown = names.find((name) => !(name in layers));
  if (unknown)
    throw new StepError(`there is no test layer "${unknown}"`, `there are ${Object.keys(layers).join(', ')}`);
  const total = { passed: 0, failed: 0, skipped: 0 };
  for (const name of names.length > 0 ? names : Object.keys(layers)) await runLayer(name, only, total);
  if (total.passed + total.failed + total.skipped === 0)
    throw new StepError('no test file matches', 'is build/ there? run: make test');
  process.exitCode = total.failed > 0 ? 1 : 0;
  console.log(`${total.passed} passed, ${total.failed} failed, ${total.skipped} skipped`);
});

async function runLayer(name, only, total) {
  const { jobs, timeoutMs } = layers[name];
  const queue = testFiles(join('test', name)).filter((path) => path.includes(only));
  const worker = async () => {
    for (let source = queue.shift(); source; source = queue.shift()) {
      const result = await runTestFile(compiled(source), timeoutMs);
      report(source, result);
      for (const key of Object.keys(total)) total[key] += result[key];
    }
  };
  await Promise.all(Array.from({ length: jobs }, worker));
}

/** Found by source, so that what an older build left in build/ is not run. */
function testFiles(folder) {
  if (!existsSync(folder)) return [];
  return readdirSync(folder, { recursive: true })
    .filter((name) => name.endsWith('.test.ts'))
    .map((name) => join(folder, name))
    .sort();
}

function compiled(source) {
  return join('build', source.replace(/\.ts$/, '.js'));
}

function report(source, result) {
  const counts = `${result.passed} passed${result.skipped > 0 ? `, ${result.skipped} skipped` : ''}`;
  const time = `${(result.durationMs / 1000).toFixed(1)} s`;
  if (result.failed === 0) {
    console.log(`ok    ${source}  (${counts}, ${time})`);
    for (const reason of result.skipReasons) console.log(`      skipped: ${reason}`);
    return;
  }
  console.log(`FAIL  ${source}  (${result.failed} failed, ${counts}, ${time})`);
  for (const failure of result.failures) console.log(failure.replace(/^/gm, '      '));
  if (result.output) console.log(`      --- other output of the file ---\n${result.output.replace(/^/gm, '      ')}`);
}
