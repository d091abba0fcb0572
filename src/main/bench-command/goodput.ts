import type { GoodputLimits } from './bench-options.js';
import type { ChatAnswer } from './chat-client.js';

/** Whether an answer stays within all limits. Inter-token latency is the answer's mean, so that one late token does not condemn it. */
export function isGood(answer: ChatAnswer, { ttft, itl, e2e }: GoodputLimits): boolean {
  const within = (ms: number, limitMs: number | undefined) => limitMs === undefined || ms <= limitMs;
  // An answer without a token has no first one: nothing was late.
  const firstMs = answer.chunkMs[0] ?? 0;
  return within(firstMs, ttft) && within(meanInterTokenMs(answer), itl) && within(answer.endMs, e2e);
}

/** Milliseconds a token after the first one; 0 where there is none. By the server's count, which a chunk of several tokens does not fool. */
export function meanInterTokenMs({ chunkMs, usage }: ChatAnswer): number {
  const tokens = usage?.outputTokens ?? chunkMs.length;
  if (chunkMs.length < 2 || tokens < 2) return 0;
  return (chunkMs[chunkMs.length - 1] - chunkMs[0]) / (tokens - 1);
}
