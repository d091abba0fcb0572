import { promptTokens } from '../load/prompts.js';
import { type StreamedAnswer, streamCompletion } from '../load/streaming-client.js';
import { percentile } from '../measure/statistics.js';
import { warmUp } from './closed-loop-rows.js';
import { type Figures, type Measurement, PEER_DEFAULTS, type TableRow } from './table-row.js';

const CLIENTS = 32;
const OUTPUT_TOKENS = 32;
const PROMPT_TOKENS_MIN = 150;
/** Prompts differ by up to so much: places of equal size would suit equal prompts too well. */
const PROMPT_TOKENS_SPAN = 300;

export const overload: TableRow = {
  id: 'overload',
  title: "32 clients at 4 slots' worth of memory",
  load: `all at once, a request each: ${PROMPT_TOKENS_MIN} to ${PROMPT_TOKENS_MIN + PROMPT_TOKENS_SPAN} tokens in, ${OUTPUT_TOKENS} out; a slot is 512 tokens`,
  plimsoll: {
    flags: ['--context-length', '512', '--max-total-tokens', '2048'],
    reason: 'the memory of four slots; how many requests share it is its own affair',
  },
  peers: {
    default: { ...PEER_DEFAULTS, reason: 'as it comes: 4 slots, in four times the memory of the others' },
    best: {
      flags: ['-np', '4', '-c', '2048'],
      reason:
        'four slots with streams of their own; more slots in a common pool of that size fail when long requests meet',
    },
  },
  checks: [
    { figure: 'errors', name: 'errors', digits: 0, better: 'less', against: 'none', bound: 0 },
    {
      figure: 'firstTokenP95Ms',
      name: 'first token p95, ms',
      digits: 0,
      better: 'less',
      against: 'better',
      bound: 0.9,
    },
  ],
  measure,
};

async function measure(on: Measurement): Promise<Figures> {
  await warmUp(on, 4);
  const startedMs = performance.now();
  const outcomes = await Promise.allSettled(
    Array.from({ length: CLIENTS }, (_, n) =>
      streamCompletion(on.url, { prompt: promptOf(n, on.seed), outputTokens: OUTPUT_TOKENS, signal: on.signal }),
    ),
  );
  if (on.signal.aborted) throw new Error('the time of the trial was over');
  const elapsedMs = performance.now() - startedMs;
  const answers = outcomes.filter((o): o is PromiseFulfilledResult<StreamedAnswer> => o.status === 'fulfilled');
  const firstTokens = answers.map(({ value }) => value.tokenAtMs[0] - value.sentAtMs);
  return {
    errors: CLIENTS - answers.length,
    firstTokenP50Ms: percentile(firstTokens, 0.5),
    firstTokenP95Ms: percentile(firstTokens, 0.95),
    outputTokensPerSecond: (answers.length * OUTPUT_TOKENS * 1000) / elapsedMs,
    elapsedMs,
  };
}

function promptOf(n: number, seed: number): number[] {
  // 97 has no factor in common with the span: lengths are spread over it in no order.
  const tokens = PROMPT_TOKENS_MIN + ((n * 97) % (PROMPT_TOKENS_SPAN + 1));
  return promptTokens({ promptTokens: tokens, sharedTokens: 0, outputTokens: 0 }, seed, n);
}
