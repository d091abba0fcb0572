/**
 * `make bench-line`: steady decoding with the load line's gate, ledger and readings, and with them stubbed. Arguments: trials (7), seconds a
 * trial (5), model file (SmolLM2).
 */
import path from 'node:path';
import { conditions } from '../measure/machine.js';
import { publish } from '../measure/results.js';
import { formatNumber, formatSpread, median, spread } from '../measure/statistics.js';
import { runTrial } from '../measure/trial.js';
import { testModel } from '../peers/servers.js';
import type { StepsResult } from '../pipeline/steps-trial.js';

const CORES = 2;
/** Asked for by the project. */
const TARGET_RATIO = 0.98;

const trialScript = new URL('../pipeline/steps-trial.js', import.meta.url);
const stub = new URL('./without-line.js', import.meta.url).href;

const [trialsArgument = '7', seconds = '5', modelPath = testModel('smollm2')] = process.argv.slice(2);

interface Load {
  name: string;
  sequences: number;
  modelPath: string | null;
}

interface Pair {
  withLine: number;
  without: number;
}

const LOADS: readonly Load[] = [
  { name: 'no engine: 32 sequences, decodes of no duration', sequences: 32, modelPath: null },
  { name: `${path.basename(modelPath)}: 8 sequences`, sequences: 8, modelPath },
];

async function tokensPerSecond(load: Load, hasLine: boolean): Promise<number> {
  const args = [String(load.sequences), seconds, 'overlap', ...(load.modelPath === null ? [] : [load.modelPath])];
  const nodeArgs = hasLine ? [] : ['--import', stub];
  return (await runTrial<StepsResult>(trialScript, { args, nodeArgs, cores: CORES })).tokensPerSecond;
}

/** Who goes first changes from pair to pair: a machine that slows down must not decide. */
async function pair(load: Load, lineFirst: boolean): Promise<Pair> {
  const first = await tokensPerSecond(load, lineFirst);
  const second = await tokensPerSecond(load, !lineFirst);
  return lineFirst ? { withLine: first, without: second } : { withLine: second, without: first };
}

const where = conditions();
const rows: string[][] = [];
const trials: unknown[] = [];
for (const load of LOADS) {
  const pairs: Pair[] = [];
  for (let i = 0; i < Number(trialsArgument); i++) {
    pairs.push(await pair(load, i % 2 === 0));
    const { withLine, without } = pairs.at(-1)!;
    process.stderr.write(`${load.name}: ${formatNumber(withLine, 1)} against ${formatNumber(without, 1)} tokens/s\n`);
  }
  const ratios = spread(pairs.map(({ withLine, without }) => withLine / without));
  rows.push([
    load.name,
    `${formatSpread(ratios, 3)} ×`,
    `${formatNumber(median(pairs.map(({ withLine }) => withLine)), 0)} tokens/s`,
    `${formatNumber(median(pairs.map(({ without }) => without)), 0)} tokens/s`,
  ]);
  trials.push({ load: load.name, pairs });
}

publish({
  name: 'line',
  title: 'What the load line costs',
  method:
    `Steady decoding of a full running set through the real threads, with the load line as it serves and with its gate, ledger, readings and ` +
    `ladder stubbed (bench/line-cost/without-line.ts), in turns, each in a fresh process on at most ${CORES} cores. The ratio is with the line to ` +
    `without; the project asks for at least ${TARGET_RATIO}. Median (least to most) of ${trialsArgument} pairs of ${seconds} s.`,
  conditions: where,
  columns: ['load', 'ratio', 'with the line', 'without'],
  rows,
  notes: [],
  trials,
});
