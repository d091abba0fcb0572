import type { SampledToken } from '../pipeline-types.js';
import type { PieceTable } from '../streaming/piece-table.js';

/** What OpenAI's API gives for a probability of zero: JSON has no −∞. */
const LOGPROB_MIN = -9999;

export interface TokenLogprob {
  token: string;
  logprob: number;
  bytes: number[];
}

export interface ChatLogprob extends TokenLogprob {
  top_logprobs: TokenLogprob[];
}

/** OpenAI's legacy shape: parallel arrays. */
export interface CompletionLogprobs {
  tokens: string[];
  token_logprobs: number[];
  top_logprobs: Array<Record<string, number>> | null;
  text_offset: number[];
}

/** A token stands alone here: one that is part of a character has U+FFFD as its text, and `bytes` tells. */
export function chatLogprob(table: PieceTable, sample: SampledToken): ChatLogprob {
  const entry = (token: number, logprob: number): TokenLogprob => ({
    token: table.lenientText(token),
    logprob: finite(logprob),
    bytes: Array.from(table.bytes(token)),
  });
  return {
    ...entry(sample.token, sample.logprob),
    top_logprobs: sample.top.map(({ token, logprob }) => entry(token, logprob)),
  };
}

export function emptyCompletionLogprobs(alternatives: number): CompletionLogprobs {
  return { tokens: [], token_logprobs: [], top_logprobs: alternatives > 0 ? [] : null, text_offset: [] };
}

/** `offset`: characters of the choice's text before this token. */
export function addCompletionLogprob(
  into: CompletionLogprobs,
  table: PieceTable,
  sample: SampledToken,
  offset: number,
): void {
  into.tokens.push(table.lenientText(sample.token));
  into.token_logprobs.push(finite(sample.logprob));
  into.text_offset.push(offset);
  if (into.top_logprobs === null) return;
  const top: Record<string, number> = {};
  for (const { token, logprob } of sample.top) top[table.lenientText(token)] = finite(logprob);
  into.top_logprobs.push(top);
}

/** Characters as Python counts them, whose clients index the text with the offsets. */
export function characterCount(text: string): number {
  let count = 0;
  for (const _ of text) count++;
  return count;
}

function finite(logprob: number): number {
  return Number.isFinite(logprob) ? logprob : LOGPROB_MIN;
}
