import { setTimeout as sleep } from 'node:timers/promises';
import { EndlessStream } from '../load/endless-stream.js';
import { promptTokens } from '../load/prompts.js';
import { streamCompletion } from '../load/streaming-client.js';
import { percentile } from '../measure/statistics.js';
import { warmUp } from './closed-loop-rows.js';
import { type Figures, type Measurement, PEER_DEFAULTS, type TableRow } from './table-row.js';

const LONG_PROMPT_TOKENS = 4000;
const LONG_PROMPTS = 2;
const LONG_ANSWER_TOKENS = 4;
const STREAM_PROMPT_TOKENS = 64;
/** More than a stream makes during the prompts, less than its place holds. */
const STREAM_TOKENS_MAX = 3500;
/** The stream decodes alone for so long before the first prompt arrives. Chosen. */
const LEAD_MS = 500;

export const stall: TableRow = {
  id: 'stall',
  title: '1 decode stream while 4,000-token prompts arrive',
  load: `${LONG_PROMPTS} new prompts, the second when the first is answered with ${LONG_ANSWER_TOKENS} tokens; gaps of the stream from the first prompt’s arrival to the last one’s first token`,
  plimsoll: {
    flags: ['--max-running-requests', '2', '--context-length', '4096'],
    reason: 'a place for the stream and one for a prompt',
  },
  peers: {
    default: PEER_DEFAULTS,
    best: {
      flags: ['-np', '2', '-c', '8192', '-b', '66', '-ub', '66'],
      reason:
        'the stream waits for little more than 64 prompt tokens: one goes with its own token, the others are just a tile of the attention (with -b 64 it is three times as slow)',
    },
  },
  checks: [
    {
      figure: 'gapP99Ms',
      name: 'gap between tokens p99, ms, against defaults',
      digits: 0,
      better: 'less',
      against: 'default',
      bound: 0.1,
    },
    {
      figure: 'gapP99Ms',
      name: 'gap between tokens p99, ms, against best flags',
      digits: 0,
      better: 'less',
      against: 'best',
      bound: 1.0,
    },
    {
      figure: 'promptTokensPerSecond',
      name: 'prompt tokens/s, against best flags',
      digits: 0,
      better: 'more',
      against: 'best',
      bound: 1.0,
    },
  ],
  measure,
};

async function measure(on: Measurement): Promise<Figures> {
  await warmUp(on, 2);
  const stream = new EndlessStream(on.url, prompt(STREAM_PROMPT_TOKENS, on.seed, 0), STREAM_TOKENS_MAX);
  try {
    await stream.firstToken(on.signal);
    await sleep(LEAD_MS);
    const fromMs = performance.now();
    let toMs = fromMs;
    let promptMs = 0;
    for (let n = 1; n <= LONG_PROMPTS; n++) {
      const long = prompt(LONG_PROMPT_TOKENS, on.seed, n);
      const ask = { prompt: long, outputTokens: LONG_ANSWER_TOKENS, signal: on.signal };
      const { sentAtMs, tokenAtMs } = await streamCompletion(on.url, ask);
      toMs = tokenAtMs[0];
      promptMs += toMs - sentAtMs;
    }
    stream.check();
    const gaps = gapsWithin(stream.tokenAtMs, fromMs, toMs);
    return {
      gapP99Ms: percentile(gaps, 0.99),
      gapP50Ms: percentile(gaps, 0.5),
      longestGapMs: Math.max(...gaps),
      streamTokensPerSecond: (stream.tokensWithin(fromMs, toMs) / (toMs - fromMs)) * 1000,
      promptTokensPerSecond: (LONG_PROMPTS * LONG_PROMPT_TOKENS * 1000) / promptMs,
      firstTokenMs: promptMs / LONG_PROMPTS,
    };
  } finally {
    await stream.stop();
  }
}

/** Gaps that lie at least partly within the span. The one that is still open at its end counts so far: a stream that stands still must not look smooth. */
export function gapsWithin(tokenAtMs: readonly number[], fromMs: number, toMs: number): number[] {
  const gaps: number[] = [];
  for (let i = 1; i < tokenAtMs.length; i++) {
    if (tokenAtMs[i] >= fromMs && tokenAtMs[i - 1] < toMs) gaps.push(Math.min(tokenAtMs[i], toMs) - tokenAtMs[i - 1]);
  }
  const last = tokenAtMs[tokenAtMs.length - 1];
  if (last < toMs) gaps.push(toMs - last);
  return gaps;
}

function prompt(tokens: number, seed: number, n: number): number[] {
  return promptTokens({ promptTokens: tokens, sharedTokens: 0, outputTokens: 0 }, seed, n);
}
