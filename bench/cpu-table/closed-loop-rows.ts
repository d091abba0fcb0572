import { runLoad } from '../load/load-generator.js';
import type { PromptShape } from '../load/prompts.js';
import {
  type Check,
  type Figures,
  type Measurement,
  PEER_DEFAULTS,
  PLIMSOLL_DEFAULTS,
  type TableRow,
} from './table-row.js';

interface ClosedLoop {
  clients: number;
  requestsPerClient: number;
  shape: PromptShape;
}

/** Short prompts of other text: code is compiled and pages are touched, and nothing of the load is cached. */
const WARM_UP: PromptShape = { promptTokens: 32, sharedTokens: 0, outputTokens: 8 };
/** Far from the load's seeds. */
const WARM_UP_SEED_OFFSET = 50_000_000;

const ONE: ClosedLoop = {
  clients: 1,
  requestsPerClient: 4,
  shape: { promptTokens: 200, sharedTokens: 0, outputTokens: 128 },
};
const DIFFERENT: ClosedLoop = {
  clients: 8,
  requestsPerClient: 2,
  shape: { promptTokens: 160, sharedTokens: 0, outputTokens: 64 },
};
/** Two requests each: every client meets the prefix once while nobody has it and once when it is there. */
const SHARED: ClosedLoop = {
  clients: 8,
  requestsPerClient: 2,
  shape: { promptTokens: 1380, sharedTokens: 1340, outputTokens: 64 },
};

/** At least so many times the better peer line's. */
const outputRate = (bound: number): Check => ({
  figure: 'outputTokensPerSecond',
  name: 'output tokens/s',
  digits: 1,
  better: 'more',
  against: 'better',
  bound,
});

/** At most so many times the better peer line's. */
const firstToken = (bound: number): Check => ({
  figure: 'firstTokenP50Ms',
  name: 'first token p50, ms',
  digits: 0,
  better: 'less',
  against: 'better',
  bound,
});

export const oneClient: TableRow = {
  id: 'one-client',
  title: '1 client, 200 in, 128 out',
  load: `${ONE.requestsPerClient} requests, one after another`,
  plimsoll: PLIMSOLL_DEFAULTS,
  peers: {
    default: PEER_DEFAULTS,
    best: {
      flags: ['-np', '1', '-c', '512'],
      reason: 'one slot with no more cells than the request: nothing else to attend to',
    },
  },
  checks: [outputRate(1.0)],
  measure: (on) => closedLoop(ONE, on),
};

export const eightDifferent: TableRow = {
  id: 'eight-different',
  title: '8 clients, 160 in, 64 out, all different',
  load: `${DIFFERENT.requestsPerClient} requests a client`,
  plimsoll: {
    flags: ['--max-running-requests', '8', '--context-length', '256'],
    reason: 'as many places as clients, each as long as a request',
  },
  peers: {
    default: PEER_DEFAULTS,
    best: {
      flags: ['-np', '8', '-c', '2048'],
      reason: 'a slot of its own for each client, streams of their own: the highest rate',
    },
    'best-2': {
      flags: ['-np', '8', '-c', '2048', '-b', '256', '-ub', '256'],
      reason: 'prompts go through one or two at a time instead of all together: earlier first tokens',
    },
  },
  ceiling: { sequences: 8, promptTokens: 160, outputTokens: 64 },
  checks: [
    outputRate(1.1),
    { ...outputRate(0.92), name: 'output tokens/s, share of llama-batched-bench', against: 'ceiling' },
    firstToken(0.65),
  ],
  measure: (on) => closedLoop(DIFFERENT, on),
};

export const eightShared: TableRow = {
  id: 'eight-shared',
  title: '8 clients, 1,340 shared + 40 in, 64 out',
  load: `${SHARED.requestsPerClient} requests a client, the first ones all at once with nothing cached`,
  plimsoll: {
    flags: ['--max-running-requests', '8', '--context-length', '1536'],
    reason: 'as many places as clients, each as long as a request',
  },
  peers: {
    default: PEER_DEFAULTS,
    best: {
      flags: ['-np', '8', '-c', '12288'],
      reason: 'a slot for each client: from the second request on its prefix is there',
    },
    'best-2': {
      flags: ['-np', '1', '-c', '1536'],
      reason: 'one slot: the prefix is computed once and clients take turns, which costs the rate of a batch',
    },
  },
  checks: [outputRate(3.0), firstToken(0.3)],
  measure: (on) => closedLoop(SHARED, on),
};

async function closedLoop(loop: ClosedLoop, { url, seed, signal }: Measurement): Promise<Figures> {
  await warmUp({ url, seed, signal }, loop.clients);
  const result = await runLoad({ ...loop, url, seed, signal });
  return {
    outputTokensPerSecond: result.outputTokensPerSecond,
    firstTokenP50Ms: result.firstTokenMs.p50,
    firstTokenP95Ms: result.firstTokenMs.p95,
    interTokenP50Ms: result.interTokenMs.p50,
    interTokenP95Ms: result.interTokenMs.p95,
    promptTokens: result.promptTokens,
    outputTokens: result.outputTokens,
    elapsedMs: result.elapsedMs,
  };
}

/** A short request of each client. @throws Error when one fails. */
export async function warmUp({ url, seed, signal }: Measurement, clients: number): Promise<void> {
  await runLoad({ url, clients, requestsPerClient: 1, shape: WARM_UP, seed: seed + WARM_UP_SEED_OFFSET, signal });
}
