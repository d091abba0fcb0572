/**
 * `make bench-tight`: a model with much KV inside small memory groups, Plimsoll without any tuning beside llama-server. Linux, root.
 * Arguments, all optional: --limits 1638,900,500 (MiB), --requests 100, --clients 4, --model FILE, --lines plimsoll,default,usual,tuned,
 * --tries 16 (requests of each try for llama-server's best flags), --name tight (the section and file of the results; `none` publishes nothing).
 */
import path from 'node:path';
import { parseArgs } from 'node:util';
import { conditions } from '../measure/machine.js';
import { publish } from '../measure/results.js';
import { formatNumber } from '../measure/statistics.js';
import { testModel } from '../peers/servers.js';
import type { Contestant } from './contestants.js';
import { findMemoryGroups } from './memory-group.js';
import { searchPeerFlags } from './peer-search.js';
import type { PromptMix } from './prompt-mix.js';
import { runTrial, type TightTrial } from './trial.js';

const { values } = parseArgs({
  options: {
    limits: { type: 'string', default: '1638,900,500' },
    requests: { type: 'string', default: '100' },
    clients: { type: 'string', default: '4' },
    model: { type: 'string' },
    lines: { type: 'string', default: 'plimsoll,default,usual,tuned' },
    tries: { type: 'string', default: '16' },
    name: { type: 'string', default: 'tight' },
  },
});

const MIB = 2 ** 20;
const LOG_LINES_SHOWN = 12;
/** Asked for by the project. */
const PEAK_SHARE_MAX = 0.97;
const MIX: PromptMix = { leastTokens: 500, mostTokens: 2000, outputTokens: 32, seed: 20_250_602 };

type Line = 'plimsoll' | 'default' | 'usual' | 'tuned';
const CONTESTANTS: Record<Exclude<Line, 'tuned'>, Contestant> = {
  plimsoll: { kind: 'plimsoll', flags: [] },
  default: { kind: 'llama-server', flags: [] },
  usual: { kind: 'llama-server', flags: ['-c', '8192', '-np', '4'] },
};

const place = findMemoryGroups();
if ('reason' in place) {
  process.stderr.write(`bench-tight needs a memory group of its own: ${place.reason}\n`);
  process.exit(1);
}

const where = conditions();
const modelPath = values.model ?? testModel('fat-kv');
const clients = Number(values.clients);
const requests = Number(values.requests);
const trials: TightTrial[] = [];
const tries: TightTrial[] = [];

async function contestantOf(line: Line, limitBytes: number): Promise<Contestant | null> {
  if (line !== 'tuned') return CONTESTANTS[line];
  const settings = { modelPath, limitBytes, clients, requests: Number(values.tries), mix: MIX };
  const search = await searchPeerFlags(settings, (trial) => say('  try', trial));
  tries.push(...search.tries);
  return search.best;
}

for (const limitBytes of values.limits.split(',').map((mib) => Number(mib) * MIB)) {
  for (const line of values.lines.split(',') as Line[]) {
    const contestant = await contestantOf(line, limitBytes);
    if (contestant === null) {
      process.stderr.write(`${limitBytes / MIB} MiB: nothing that was tried for llama-server survives\n`);
      continue;
    }
    const trial = await runTrial({ contestant, modelPath, limitBytes, clients, requests, mix: MIX });
    trials.push(trial);
    say('', trial);
  }
}

function nameOf({ kind, flags }: Contestant): string {
  return kind === 'plimsoll' ? 'Plimsoll' : `llama-server ${flags.join(' ') || '(defaults)'}`;
}

function say(prefix: string, trial: TightTrial): void {
  process.stderr.write(`${prefix} ${rowOf(trial).join(', ')}\n`);
  for (const failure of trial.load?.failures ?? []) process.stderr.write(`    ${failure}\n`);
  const logLines = trial.logTail.trim().split('\n').slice(-LOG_LINES_SHOWN);
  if (trial.logTail !== '') process.stderr.write(`    ${logLines.join('\n    ')}\n`);
  if (trial.startFailure !== null)
    process.stderr.write(`    ${trial.startFailure.trim().split('\n').slice(-6).join('\n    ')}\n`);
}

function rowOf(trial: TightTrial): string[] {
  const { load } = trial;
  const failed = load === null ? `${trial.requests} (never ready)` : String(load.failed);
  return [
    `${formatNumber(trial.limitBytes / MIB, 0)} MiB`,
    nameOf(trial.contestant),
    String(trial.kills),
    `${failed} of ${trial.requests}`,
    `${formatNumber(trial.peakShare * 100, 1)} %`,
    load === null || load.answered === 0 ? '' : formatNumber(load.outputTokensPerSecond, 1),
    load === null || load.answered === 0 ? '' : formatNumber(load.firstTokenMs.p50, 0),
  ];
}

function verdicts(): string[] {
  return trials
    .filter((trial) => trial.contestant.kind === 'plimsoll')
    .map((trial) => {
      const holds = trial.kills === 0 && trial.load?.failed === 0 && trial.peakShare <= PEAK_SHARE_MAX;
      return `${formatNumber(trial.limitBytes / MIB, 0)} MiB: Plimsoll ${holds ? 'holds' : 'DOES NOT HOLD'} (no kill, no failed request, working set within ${PEAK_SHARE_MAX * 100} %).`;
    });
}

if (values.name !== 'none') {
  publish({
    name: values.name,
    title: 'Little memory, much KV',
    method:
      `${path.basename(modelPath)} (131 kB of KV a token) in a memory group with the given limit and no swap. ${clients} clients in a ` +
      `closed loop, ${requests} requests: ${MIX.leastTokens} to ${MIX.mostTokens} prompt tokens, every third beginning with three quarters ` +
      `of an earlier prompt, exactly ${MIX.outputTokens} output tokens, greedy. Plimsoll runs without any flag but the model's. ` +
      `llama-server runs with its defaults, with -c 8192 -np 4, and tuned by hand: --cache-ram 0 and the fastest of ` +
      `seven settings of -c, -np and --kv-unified that survived ${values.tries} requests (the tries are in the JSON). The working set is use less ` +
      `inactive file cache, sampled every 50 ms by a thread of its own. The model's file is read before each run, outside of the group: ` +
      `its pages are charged to neither side. A kill is counted by the kernel.`,
    conditions: where,
    columns: [
      'limit',
      'server',
      'kills',
      'failed requests',
      'peak working set',
      'output tokens/s',
      'first token p50, ms',
    ],
    rows: trials.map(rowOf),
    notes: verdicts(),
    trials: [...trials, ...tries],
  });
}
process.exitCode = verdicts().some((line) => line.includes('NOT')) ? 1 : 0;
