/**
 * From start to ready, and memory of the process beyond weights, KV and compute. Linux. Arguments, all optional: --trials 5,
 * --model FILE, --clients 8.
 */
import { readFileSync, realpathSync, statSync } from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { runLoad } from '../load/load-generator.js';
import { conditions } from '../measure/machine.js';
import { publish } from '../measure/results.js';
import { formatNumber, formatSpread, spread } from '../measure/statistics.js';
import { startPlimsoll, testModel } from '../peers/servers.js';
import { processMemory } from './process-memory.js';

const { values } = parseArgs({
  options: {
    trials: { type: 'string', default: '5' },
    model: { type: 'string' },
    clients: { type: 'string', default: '8' },
  },
});

/** Asked for by the project. */
const TARGET_READY_MS = 1500;
const TARGET_BEYOND_BYTES = 200 * 2 ** 20;
const SEED = 7;
const MIB = 2 ** 20;

interface Trial {
  readyMs: number;
  /** Memory after the load, bytes. */
  residentBytes: number;
  modelFileBytes: number;
  weightsBytes: number;
  kvBytes: number;
  computeBytes: number;
  beyondBytes: number;
}

interface LoadLine {
  device: { weightsBytes: number; kvBytes: number; computeBytes: number };
}

const modelPath = realpathSync(values.model ?? testModel('smollm2'));
const fileBytes = statSync(modelPath).size;

async function trial(): Promise<Trial> {
  // The model's pages are in the file cache from now on: a disk is not what is measured.
  readFileSync(modelPath);
  const clients = Number(values.clients);
  const server = await startPlimsoll({ modelPath });
  try {
    const shape = { promptTokens: 160, sharedTokens: 0, outputTokens: 64 };
    await runLoad({ url: server.url, clients, requestsPerClient: 1, shape, seed: SEED });
    const response = await fetch(`${server.url}/v1/load-line`);
    const { weightsBytes, kvBytes, computeBytes } = ((await response.json()) as LoadLine).device;
    const parts = server.pids.map((pid) => processMemory(pid, modelPath));
    const residentBytes = parts.reduce((total, part) => total + part.residentBytes, 0);
    const modelFileBytes = parts.reduce((total, part) => total + part.modelFileBytes, 0);
    // Weights that the engine repacked lie in memory of its own, beside the file's pages.
    const repackedBytes = Math.max(0, weightsBytes - fileBytes);
    const beyondBytes = residentBytes - modelFileBytes - repackedBytes - kvBytes - computeBytes;
    const readyMs = server.readyAfterMs;
    return { readyMs, residentBytes, modelFileBytes, weightsBytes, kvBytes, computeBytes, beyondBytes };
  } finally {
    await server.stop();
  }
}

const where = conditions();
const trials: Trial[] = [];
for (let i = 1; i <= Number(values.trials); i++) {
  trials.push(await trial());
  const { readyMs, beyondBytes } = trials.at(-1)!;
  process.stderr.write(
    `trial ${i}: ready after ${formatNumber(readyMs, 0)} ms, ${formatNumber(beyondBytes / MIB, 0)} MiB beyond\n`,
  );
}

const ready = spread(trials.map((t) => t.readyMs));
const beyond = spread(trials.map((t) => t.beyondBytes));
const bytes = (name: string, value: (t: Trial) => number): string[] => [
  name,
  '',
  `${formatSpread(spread(trials.map((t) => value(t) / MIB)), 0)} MiB`,
];

publish({
  name: 'startup',
  title: 'Start and memory',
  method:
    `${path.basename(modelPath)} in the file cache, every flag at its default. Ready: from the start of the process until /readyz ` +
    `answers 200, the model loaded, planned and warmed up. ` +
    `Memory is read after ${values.clients} clients had an answer each: resident memory of all its processes, less the resident pages ` +
    `of the model's file, less weights that the engine repacked (ledger's weights less the file's size), less KV and compute by the ` +
    `ledger. What is left is Node, the threads' heaps, the rings, the libraries, and what nobody counts. The ratio is to what the ` +
    `project asks for: ${TARGET_READY_MS} ms and ${TARGET_BEYOND_BYTES / MIB} MiB. Median (least to most) of ${values.trials} fresh processes.`,
  conditions: where,
  columns: ['what', 'ratio', 'value'],
  rows: [
    ['start to ready', `${formatNumber(ready.median / TARGET_READY_MS, 2)} ×`, `${formatSpread(ready, 0)} ms`],
    [
      'memory beyond weights, KV and compute',
      `${formatNumber(beyond.median / TARGET_BEYOND_BYTES, 2)} ×`,
      `${formatSpread(spread(trials.map((t) => t.beyondBytes / MIB)), 0)} MiB`,
    ],
    bytes('resident, all', (t) => t.residentBytes),
    bytes("of it the model file's pages", (t) => t.modelFileBytes),
    bytes('weights by the ledger', (t) => t.weightsBytes),
    bytes('KV by the ledger', (t) => t.kvBytes),
    bytes('compute by the ledger', (t) => t.computeBytes),
  ],
  notes: [],
  trials,
});
