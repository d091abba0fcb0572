/**
 * `make bench-prediction`: the planned bytes of a context against what the process then takes, over a grid of starts. Linux, CPU.
 * Arguments: model files; the test models when left out.
 */
import path from 'node:path';
import { conditions } from '../measure/machine.js';
import { publish } from '../measure/results.js';
import { formatNumber } from '../measure/statistics.js';
import { testModel } from '../peers/servers.js';
import { BUDGET_BYTES, type CellResult, ERROR_BYTES, ERROR_SHARE, fault, GRID } from './grid.js';
import { predict } from './predict.js';

const MODELS = ['smollm2', 'tiny-qwen3', 'tiny-moe', 'tiny-mamba', 'tiny-hybrid', 'fat-kv'];
const MIB = 2 ** 20;

const given = process.argv.slice(2);
const files = given.length > 0 ? given : MODELS.map(testModel);

function row(file: string, results: readonly CellResult[]): string[] {
  const ran = results.filter(({ refused }) => !refused);
  const errors = ran.map(({ plannedBytes, takenBytes }) => plannedBytes - takenBytes);
  const shares = ran.map(({ plannedBytes, takenBytes }) => (plannedBytes - takenBytes) / takenBytes);
  // The share says something where it is more than the bytes that are allowed anyhow.
  const large = shares.filter((_, i) => ran[i].takenBytes * ERROR_SHARE > ERROR_BYTES);
  const mib = (bytes: number) => `${formatNumber(bytes / MIB, 1)} MiB`;
  const percent = (share: number) => `${formatNumber(share * 100, 1)} %`;
  return [
    path.basename(file),
    `${results.filter((result) => fault(result) === null).length} of ${results.length}`,
    String(results.length - ran.length),
    mib(Math.min(...errors)),
    mib(Math.max(...errors)),
    large.length > 0 ? `${percent(Math.min(...large))} to ${percent(Math.max(...large))}` : 'none is that large',
  ];
}

const where = conditions();
const rows: string[][] = [];
const trials: unknown[] = [];
for (const file of files) {
  const results = await predict(file, GRID);
  rows.push(row(file, results));
  trials.push({ model: path.basename(file), results });
  for (const result of results) {
    const wrong = fault(result);
    if (wrong !== null) process.stderr.write(`${path.basename(file)} ${JSON.stringify(result.cell)}: ${wrong}\n`);
  }
  process.stderr.write(`${rows.at(-1)!.join(', ')}\n`);
}

publish({
  name: 'prediction',
  title: 'Plan against process',
  method:
    `Private and shared KV × 1, 4 and 16 sequences × 512, 4096 and 16,384 tokens of context × chunks of 64, 512 and 2048: the bytes of ` +
    `the plan, and what the process takes on the CPU with that context and after a step. The engine's tables and the least context are ` +
    `measured in resident memory (RssAnon), what a context takes beyond that one in the address space of its buffers: their last pages are ` +
    `used only at the end of the span. As it must be: within ${ERROR_SHARE * 100} % or ${ERROR_BYTES / MIB} MiB, whichever is more; and refused, instead of made, ` +
    `exactly where it exceeds a budget of ${BUDGET_BYTES / 2 ** 30} GiB. A fresh process for each model and layout.`,
  conditions: where,
  columns: [
    'model',
    'as it must be',
    'of them refused',
    'planned too little, at most',
    'planned too much, at most',
    `error of contexts over ${formatNumber(ERROR_BYTES / ERROR_SHARE / MIB, 0)} MiB`,
  ],
  rows,
  notes: [],
  trials,
});
if (trials.length > 0 && rows.some(([, good]) => good.split(' ')[0] !== good.split(' ')[2])) process.exitCode = 1;
