/**
 * `make bench-serve`: Plimsoll against llama-server of the same engine version, in turns, on this machine.
 * Arguments, all optional: --rounds 3, --clients 1,8, --model FILE, --threads 2, --prompt 160, --shared 0, --output 64,
 * --requests 4 (a client), --engine-dir DIR (Plimsoll's engine; the npm package's when left out), --name serve.
 */
import os from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { type LoadResult, runLoad } from '../load/load-generator.js';
import type { PromptShape } from '../load/prompts.js';
import { conditions } from '../measure/machine.js';
import { publish } from '../measure/results.js';
import { formatNumber, formatSpread, median, spread } from '../measure/statistics.js';
import type { ServerProcess } from '../peers/server-process.js';
import { type ServerSettings, startLlamaServer, startPlimsoll, testModel } from '../peers/servers.js';

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '3' },
    clients: { type: 'string', default: '1,8' },
    model: { type: 'string' },
    threads: { type: 'string', default: '2' },
    prompt: { type: 'string', default: '160' },
    shared: { type: 'string', default: '0' },
    output: { type: 'string', default: '64' },
    requests: { type: 'string', default: '4' },
    'engine-dir': { type: 'string' },
    name: { type: 'string', default: 'serve' },
  },
});

const SEED = 20_250_601;
/** Cells of one request beyond its tokens: neither server ends a request early, and both round to 256 anyway. */
const CONTEXT_SLACK_TOKENS = 32;

const sides = {
  plimsoll: (settings: ServerSettings) => startPlimsoll(settings, { engineDir: values['engine-dir'] }),
  'llama-server': startLlamaServer,
} as const;
type Side = keyof typeof sides;

interface Trial extends LoadResult {
  side: Side;
  clients: number;
  round: number;
  /** CPU of the server for one output token, prompt work included. */
  cpuMsPerToken: number;
  loadAverage: number;
}

const shape: PromptShape = {
  promptTokens: Number(values.prompt),
  sharedTokens: Number(values.shared),
  outputTokens: Number(values.output),
};
const modelPath = values.model ?? testModel('smollm2-q4_0');

/** A fresh server, a warm-up with other prompts, then the load. */
async function trial(side: Side, clients: number, round: number): Promise<Trial> {
  const settings: ServerSettings = {
    modelPath,
    threads: Number(values.threads),
    parallel: clients,
    contextTokens: Math.ceil((shape.promptTokens + shape.outputTokens + CONTEXT_SLACK_TOKENS) / 256) * 256,
  };
  const server: ServerProcess = await sides[side](settings);
  try {
    await runLoad({ url: server.url, clients, requestsPerClient: 1, shape, seed: SEED - 1_000_000 });
    const cpuBefore = server.cpuMs();
    const requestsPerClient = Number(values.requests);
    const result = await runLoad({ url: server.url, clients, requestsPerClient, shape, seed: SEED + round * 10_000 });
    const cpuMsPerToken = (server.cpuMs() - cpuBefore) / result.outputTokens;
    return { ...result, side, clients, round, cpuMsPerToken, loadAverage: os.loadavg()[0] };
  } finally {
    await server.stop();
  }
}

const where = conditions();
const trials: Trial[] = [];
for (let round = 1; round <= Number(values.rounds); round++) {
  for (const clients of values.clients.split(',').map(Number)) {
    // Who goes first changes from round to round: what heats or cools the machine meets both.
    const order: Side[] = round % 2 === 1 ? ['plimsoll', 'llama-server'] : ['llama-server', 'plimsoll'];
    for (const side of order) {
      const result = await trial(side, clients, round);
      trials.push(result);
      process.stderr.write(
        `round ${round}, ${clients} clients, ${side}: ${formatNumber(result.outputTokensPerSecond, 1)} tokens/s, ` +
          `first token p50 ${formatNumber(result.firstTokenMs.p50, 0)} ms, CPU ${formatNumber(result.cpuMsPerToken, 1)} ms a token, ` +
          `load average ${formatNumber(result.loadAverage, 1)}\n`,
      );
    }
  }
}

function of(side: Side, clients: number): Trial[] {
  return trials.filter((t) => t.side === side && t.clients === clients);
}

function rows(clients: number): string[][] {
  const ours = of('plimsoll', clients);
  const theirs = of('llama-server', clients);
  const row = (name: string, digits: number, value: (t: Trial) => number): string[] => [
    `${clients} ${clients === 1 ? 'client' : 'clients'}: ${name}`,
    formatSpread(spread(ours.map((t, i) => value(t) / value(theirs[i])))),
    formatSpread(spread(ours.map(value)), digits),
    formatSpread(spread(theirs.map(value)), digits),
  ];
  return [
    row('output tokens/s', 1, (t) => t.outputTokensPerSecond),
    row('first token p50, ms', 0, (t) => t.firstTokenMs.p50),
    row('first token p95, ms', 0, (t) => t.firstTokenMs.p95),
    row('between tokens p50, ms', 1, (t) => t.interTokenMs.p50),
    row('CPU, ms an output token', 1, (t) => t.cpuMsPerToken),
  ];
}

function promptTokensOf(side: Side): number {
  return trials.filter((t) => t.side === side).reduce((total, t) => total + t.promptTokens, 0);
}

function note(): string {
  const isSame = promptTokensOf('plimsoll') === promptTokensOf('llama-server');
  return (
    `Both sides counted ${isSame ? 'the same' : 'DIFFERENT'} numbers of prompt tokens. Load average during the trials: median ` +
    `${formatNumber(median(trials.map((t) => t.loadAverage)), 1)}; the engine's own ${values.threads} threads are in it.`
  );
}

publish({
  name: values.name,
  title: `Serving against llama-server${values.name === 'serve' ? '' : ` (${values.name})`}`,
  method:
    `${path.basename(modelPath)}, ${values.threads} engine threads. Streaming clients in a closed loop, ${values.requests} requests ` +
    `each: ${shape.promptTokens} prompt tokens (${shape.sharedTokens} of them shared) given as token ids, exactly ` +
    `${shape.outputTokens} output tokens, greedy, a new connection a request. llama-server has a slot for each client. A fresh server ` +
    `for each trial, a warm-up request a client, the same prompts for both, the sides in turns over ${values.rounds} rounds. Ratios ` +
    `are ours to theirs within a round: above 1 is better for rates, below 1 for times. Median (least to most). Plimsoll ran on ` +
    `${values['engine-dir'] ? "the peer's own engine build" : "the npm package's engine"}.`,
  conditions: where,
  columns: ['what', 'ratio', 'Plimsoll', 'llama-server'],
  rows: values.clients.split(',').flatMap((clients) => rows(Number(clients))),
  notes: [note()],
  trials,
});
