import type { StreamedAnswer } from '../load/streaming-client.js';

/** Times between two tokens of an answer, from when all of them are being written, ms. */
export function gapsWhileAllAreWritten(answers: readonly StreamedAnswer[]): number[] {
  const fromMs = Math.max(...answers.map((answer) => answer.tokenAtMs[0]));
  return answers.flatMap(({ tokenAtMs }) =>
    tokenAtMs.slice(1).flatMap((at, i) => (tokenAtMs[i] >= fromMs ? [at - tokenAtMs[i]] : [])),
  );
}
