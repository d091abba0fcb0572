import { percentile } from '../measure/statistics.js';
import { type PromptShape, promptTokens } from './prompts.js';
import { type StreamedAnswer, streamCompletion } from './streaming-client.js';

export interface Load {
  url: string;
  clients: number;
  /** Each client sends its next request when the last one is over: a closed loop. */
  requestsPerClient: number;
  shape: PromptShape;
  /** The same seed gives the same prompts. */
  seed: number;
  /** Ends the load. */
  signal?: AbortSignal;
}

export interface LoadResult {
  requests: number;
  outputTokensPerSecond: number;
  /** First request sent to last answer ended. */
  elapsedMs: number;
  firstTokenMs: { p50: number; p95: number };
  /** Gaps between chunks of one answer. */
  interTokenMs: { p50: number; p95: number };
  promptTokens: number;
  outputTokens: number;
}

/** Runs the load to its end. @throws Error on the first request that fails: a rate with failures in it compares nothing. */
export async function runLoad(load: Load): Promise<LoadResult> {
  const answers: StreamedAnswer[] = [];
  const client = async (index: number): Promise<void> => {
    for (let i = 0; i < load.requestsPerClient; i++) {
      const prompt = promptTokens(load.shape, load.seed, i * load.clients + index);
      const signal = load.signal ? { signal: load.signal } : {};
      answers.push(await streamCompletion(load.url, { prompt, outputTokens: load.shape.outputTokens, ...signal }));
    }
  };
  await Promise.all(Array.from({ length: load.clients }, (_, index) => client(index)));
  return summary(answers);
}

function summary(answers: StreamedAnswer[]): LoadResult {
  const elapsedMs = Math.max(...answers.map((a) => a.endedAtMs)) - Math.min(...answers.map((a) => a.sentAtMs));
  const outputTokens = sum(answers.map((a) => a.outputTokens));
  const firstTokens = answers.map((a) => a.tokenAtMs[0] - a.sentAtMs);
  const gaps = answers.flatMap((a) => a.tokenAtMs.slice(1).map((at, i) => at - a.tokenAtMs[i]));
  return {
    requests: answers.length,
    outputTokensPerSecond: (outputTokens / elapsedMs) * 1000,
    elapsedMs,
    firstTokenMs: { p50: percentile(firstTokens, 0.5), p95: percentile(firstTokens, 0.95) },
    interTokenMs: { p50: percentile(gaps, 0.5), p95: percentile(gaps, 0.95) },
    promptTokens: sum(answers.map((a) => a.promptTokens)),
    outputTokens,
  };
}

function sum(values: number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
