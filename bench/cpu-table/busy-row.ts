import { setTimeout as sleep } from 'node:timers/promises';
import { EndlessStream } from '../load/endless-stream.js';
import { promptTokens } from '../load/prompts.js';
import { BusyProcess } from './busy-process.js';
import { warmUp } from './closed-loop-rows.js';
import { type Check, type Figures, type Measurement, PEER_DEFAULTS, type TableRow } from './table-row.js';

const STREAM_COUNTS = [1, 4];
const BUSY_PROCESSES = 2;
const PROMPT_TOKENS = 64;
/** More than a stream makes while it is measured; four of them fit into llama-server's default context. */
const STREAM_TOKENS_MAX = 1500;
/** From the last stream's first token until tokens count: a server that adapts gets the time to. Chosen. */
const SETTLE_MS = 1500;
const WINDOW_MS = 3000;

export const busy: TableRow = {
  id: 'busy',
  title: 'streams beside busy processes',
  load: `${PROMPT_TOKENS} tokens in, tokens of all streams within ${WINDOW_MS / 1000} s, ${SETTLE_MS / 1000} s after the last one began; a busy process is a loop that never waits`,
  plimsoll: {
    flags: ['--max-running-requests', '4', '--context-length', '2048'],
    reason: 'four places; the number of threads is left to it',
  },
  peers: {
    default: PEER_DEFAULTS,
    best: {
      flags: ['-np', '4', '-c', '8192', '--threads', '1', '--threads-batch', '1'],
      reason: 'half of the machine given up for good: what someone sets who knows that it will never be idle',
    },
  },
  checks: [1, 2].flatMap((neighbours) => STREAM_COUNTS.flatMap((streams) => checksOf(streams, neighbours))),
  measure,
};

/** Two lines each: the better one may be a server that gave up a thread, and the other tells what the neighbours cost. */
function checksOf(streams: number, neighbours: number): Check[] {
  const name = `${streams} beside ${neighbours}, tokens/s`;
  const shared = { figure: figureOf(streams, neighbours), digits: 1, better: 'more', bound: 1.8 } as const;
  return [
    { ...shared, name, against: 'better' },
    { ...shared, name: `${name}, against defaults`, against: 'default' },
  ];
}

function figureOf(streams: number, neighbours: number): string {
  return `streams${streams}Beside${neighbours}TokensPerSecond`;
}

async function measure(on: Measurement): Promise<Figures> {
  await warmUp(on, 4);
  const figures: Figures = {};
  const neighbours: BusyProcess[] = [];
  try {
    while (neighbours.length < BUSY_PROCESSES) {
      neighbours.push(new BusyProcess());
      for (const streams of STREAM_COUNTS)
        figures[figureOf(streams, neighbours.length)] = await decodeRate(streams, neighbours.length, on);
    }
    return figures;
  } finally {
    await Promise.all(neighbours.map((one) => one.stop()));
  }
}

/** Tokens a second of all streams together. */
async function decodeRate(count: number, segment: number, { url, seed, signal }: Measurement): Promise<number> {
  const shape = { promptTokens: PROMPT_TOKENS, sharedTokens: 0, outputTokens: 0 };
  const streams = Array.from(
    { length: count },
    (_, n) => new EndlessStream(url, promptTokens(shape, seed, segment * 100 + count * 10 + n), STREAM_TOKENS_MAX),
  );
  try {
    await Promise.all(streams.map((stream) => stream.firstToken(signal)));
    await sleep(SETTLE_MS);
    const fromMs = performance.now();
    await sleep(WINDOW_MS);
    const toMs = performance.now();
    for (const stream of streams) stream.check();
    const tokens = streams.reduce((total, stream) => total + stream.tokensWithin(fromMs, toMs), 0);
    return (tokens * 1000) / (toMs - fromMs);
  } finally {
    await Promise.all(streams.map((stream) => stream.stop()));
  }
}
