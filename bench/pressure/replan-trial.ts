import { promptTokens } from '../load/prompts.js';
import { streamCompletion } from '../load/streaming-client.js';
import { startInside } from '../tight/contestants.js';
import { gapsWhileAllAreWritten } from './gaps.js';
import { readGauges } from './load-line.js';

/** Four of these and a few tokens more are over the first rung's 8192 cells, so the context moves with all four in mid-answer. */
const LIVE = 4;
const PROMPT_TOKENS = 2_000;
const OUTPUT_TOKENS = 96;
const FLAGS = ['--kv-layout', 'shared', '--context-length', '8192', '--max-running-requests', '8'];

export interface ReplanTrial {
  /** Contexts that came after the first. */
  moves: number;
  /** The server's own word on the moves. */
  logged: string[];
  /** Longest time between two tokens of an answer while all four were being written. */
  longestGapMs: number;
  /** And what is usual between two tokens then. */
  usualGapMs: number;
}

export async function runReplanTrial(modelPath: string, seed: number): Promise<ReplanTrial> {
  const server = await startInside(null, { kind: 'plimsoll', flags: FLAGS }, modelPath);
  try {
    const before = await readGauges(server.url);
    const shape = { promptTokens: PROMPT_TOKENS, sharedTokens: 0, outputTokens: OUTPUT_TOKENS };
    const answers = await Promise.all(
      Array.from({ length: LIVE }, (_, n) =>
        streamCompletion(server.url, { prompt: promptTokens(shape, seed, n), outputTokens: OUTPUT_TOKENS }),
      ),
    );
    const after = await readGauges(server.url);
    const gaps = gapsWhileAllAreWritten(answers).sort((a, b) => a - b);
    return {
      moves: after.contextEpoch - before.contextEpoch,
      logged: server.logTail.match(/context rung [^"\n]*/g) ?? [],
      longestGapMs: gaps.at(-1) ?? Number.NaN,
      usualGapMs: gaps[gaps.length >> 1] ?? Number.NaN,
    };
  } finally {
    await server.stop();
  }
}
