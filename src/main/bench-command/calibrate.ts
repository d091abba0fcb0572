import { CliError, EXIT_FAILED } from '../cli/cli-error.js';
import type { BenchOptions } from './bench-options.js';
import type { ChatAnswer, ChatClient, Dialect } from './chat-client.js';
import { type ChatFailure, isUnreachable } from './chat-failure.js';
import { calibrationText, type TokenScale } from './prompts.js';

/** How to ask this server, found out with a few requests before the measured ones. They also warm it up. */
export interface Calibration {
  model: string;
  dialect: Dialect;
  scale: TokenScale;
  /** The scale is the server's own count, not a guess of one token a word. */
  isCounted: boolean;
}

/** In this order: everything, then without what OpenAI's own servers and old ones refuse. */
const DIALECTS: readonly Dialect[] = [
  { ignoreEos: true, includeUsage: true },
  { ignoreEos: false, includeUsage: true },
  { ignoreEos: false, includeUsage: false },
];
/** Words of the two prompts. Chosen: far enough apart for a slope, short enough for any context. */
const SHORT_WORDS = 16;
const LONG_WORDS = 256;
const OUTPUT_TOKENS = 4;
/** Outside of these a count is not believed. */
const TOKENS_PER_WORD_MIN = 0.25;
const TOKENS_PER_WORD_MAX = 8;
const GUESS: TokenScale = { tokensPerWord: 1, overheadTokens: 0 };

/** @returns null when stopped. @throws CliError, one line, when the server does not answer such requests. */
export async function calibrate(client: ChatClient, options: BenchOptions): Promise<Calibration | null> {
  const named = options.model === null ? await client.firstModel() : { kind: 'named' as const, name: options.model };
  if (named.kind === 'stopped') return null;
  if (named.kind === 'failed') throw refusal(options, named.failure);
  const model = named.name;
  let first: ChatFailure | null = null;
  for (const dialect of DIALECTS) {
    const probe = async (n: number, words: number) =>
      client.ask({
        model,
        messages: [{ role: 'user', content: calibrationText(n, words) }],
        outputTokens: OUTPUT_TOKENS,
        dialect,
        dueAtMs: performance.now(),
      });
    const short = await probe(0, SHORT_WORDS);
    if (short.kind === 'stopped') return null;
    if (short.kind === 'failed') {
      first ??= short.failure;
      // Only a request that is not understood can be one with a field too many.
      if (!/^4(00|22)\b/.test(short.failure.kind)) break;
      continue;
    }
    const long = await probe(1, LONG_WORDS);
    if (long.kind === 'stopped') return null;
    const scale = long.kind === 'answered' ? scaleOf(short.answer, long.answer) : null;
    return { model, dialect, scale: scale ?? GUESS, isCounted: scale !== null };
  }
  throw refusal(options, first as ChatFailure);
}

function scaleOf({ usage: short }: ChatAnswer, { usage: long }: ChatAnswer): TokenScale | null {
  if (short === null || long === null) return null;
  const tokensPerWord = (long.promptTokens - short.promptTokens) / (LONG_WORDS - SHORT_WORDS);
  if (!(tokensPerWord >= TOKENS_PER_WORD_MIN && tokensPerWord <= TOKENS_PER_WORD_MAX)) return null;
  return { tokensPerWord, overheadTokens: Math.max(0, short.promptTokens - SHORT_WORDS * tokensPerWord) };
}

function refusal({ url }: BenchOptions, failure: ChatFailure): CliError {
  if (isUnreachable(failure))
    return new CliError(
      EXIT_FAILED,
      `${url} cannot be reached (${failure.message}): is a server running there? (--url)`,
    );
  const advice = /^40[13]\b/.test(failure.kind) ? ' (--api-key)' : '';
  return new CliError(
    EXIT_FAILED,
    `${url} did not answer the first request: ${failure.kind}: ${failure.message}${advice}`,
  );
}
