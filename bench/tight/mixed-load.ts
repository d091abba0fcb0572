import { setTimeout as sleep } from 'node:timers/promises';
import { type StreamedAnswer, streamCompletion } from '../load/streaming-client.js';
import { percentile } from '../measure/statistics.js';
import { mixedPrompt, type PromptMix } from './prompt-mix.js';

export interface MixedLoad {
  url: string;
  clients: number;
  mix: PromptMix;
  /** The mix's first prompt of this load. */
  firstPrompt?: number;
  /** Requests in all, or as many as fit into a time. */
  requests?: number;
  durationMs?: number;
  /** False: the server is gone, and nobody need ask it any more. */
  isServerAlive(): boolean;
  onAnswer?(answer: StreamedAnswer, n: number): void;
}

export interface MixedLoadResult {
  /** Requests that got a whole answer. */
  answered: number;
  /** Requests that did not; those that were not even sent because the server was gone included. */
  failed: number;
  /** What the first few failures said. */
  failures: string[];
  outputTokensPerSecond: number;
  firstTokenMs: { p50: number; p95: number };
  /** Longest time between two chunks of an answer. */
  longestGapMs: number;
  elapsedMs: number;
}

const FAILURES_KEPT = 5;
/** After a failure a client waits, as clients do; a server that is not there would be asked thousands of times. Chosen. */
const FAILURE_PAUSE_MS = 500;

/** Clients in a closed loop over one list of prompts. Failures are counted, not thrown: here they are what is measured. */
export async function runMixedLoad(load: MixedLoad): Promise<MixedLoadResult> {
  const { requests = Number.POSITIVE_INFINITY, durationMs = Number.POSITIVE_INFINITY, firstPrompt = 0 } = load;
  const answers: StreamedAnswer[] = [];
  const failures: string[] = [];
  const startMs = performance.now();
  let sent = 0;
  let failed = 0;
  const client = async (): Promise<void> => {
    while (sent < requests && performance.now() - startMs < durationMs && load.isServerAlive()) {
      const n = firstPrompt + sent++;
      const prompt = mixedPrompt(load.mix, n);
      const sentAtMs = performance.now();
      try {
        const answer = await streamCompletion(load.url, { prompt, outputTokens: load.mix.outputTokens });
        answers.push(answer);
        load.onAnswer?.(answer, n);
      } catch (error) {
        failed++;
        const seconds = Math.round((performance.now() - sentAtMs) / 1000);
        if (failures.length < FAILURES_KEPT)
          failures.push(`${prompt.length} tokens, after ${seconds} s: ${(error as Error).message}`);
        await sleep(FAILURE_PAUSE_MS);
      }
    }
  };
  await Promise.all(Array.from({ length: load.clients }, client));
  const elapsedMs = performance.now() - startMs;
  const unsent = Number.isFinite(requests) ? requests - sent : 0;
  return { ...summary(answers, elapsedMs), failed: failed + unsent, failures };
}

function summary(answers: StreamedAnswer[], elapsedMs: number): Omit<MixedLoadResult, 'failed' | 'failures'> {
  const firstTokens = answers.map((a) => a.tokenAtMs[0] - a.sentAtMs);
  const gaps = answers.flatMap((a) => a.tokenAtMs.slice(1).map((at, i) => at - a.tokenAtMs[i]));
  const outputTokens = answers.reduce((total, a) => total + a.outputTokens, 0);
  return {
    answered: answers.length,
    outputTokensPerSecond: (outputTokens / elapsedMs) * 1000,
    firstTokenMs: { p50: percentile(firstTokens, 0.5), p95: percentile(firstTokens, 0.95) },
    longestGapMs: gaps.reduce((most, gap) => Math.max(most, gap), 0),
    elapsedMs,
  };
}
