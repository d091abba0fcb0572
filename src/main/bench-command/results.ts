import type { BenchOptions, GoodputLimits } from './bench-options.js';
import type { Calibration } from './calibrate.js';
import type { LatencyHistogram } from './latency-histogram.js';
import type { Tally } from './tally.js';

/** Milliseconds. NaN where there was nothing to measure, which JSON writes as null. */
export interface Percentiles {
  count: number;
  mean: number;
  p50: number;
  p90: number;
  p95: number;
  p99: number;
  max: number;
}

/** What a run found: the table's numbers, and the file of `--json`. */
export interface BenchResults {
  url: string;
  model: string;
  load: Pick<
    BenchOptions,
    'clients' | 'rate' | 'requests' | 'promptTokens' | 'sharedPrefixTokens' | 'outputTokens' | 'turns' | 'seed'
  >;
  /** It was stopped, or the server went away, before the load was done. */
  ended: 'done' | 'stopped' | 'server gone';
  elapsedSeconds: number;
  requests: { sent: number; answered: number; failed: number; notSent: number; unfinished: number };
  failures: Array<{ kind: string; count: number; message: string }>;
  latencyMs: {
    firstToken: Percentiles;
    firstTokenOfFirstTurn: Percentiles;
    firstTokenOfLaterTurns: Percentiles;
    interToken: Percentiles;
    endToEnd: Percentiles;
  };
  requestsPerSecond: number;
  outputTokensPerSecond: number;
  /** Means of an answer; null where the server does not count. */
  tokens: {
    prompt: number | null;
    cachedPrompt: number | null;
    output: number;
    /** Who counted the output: `chunks` takes each chunk of the stream for a token. */
    countedBy: 'server' | 'chunks';
    perChunk: number;
  };
  goodput: { limits: GoodputLimits; share: number; requestsPerSecond: number } | null;
  /** What a reader must know, a sentence each. */
  notes: string[];
}

export function resultsOf(
  options: BenchOptions,
  calibration: Calibration,
  tally: Tally,
  ended: BenchResults['ended'],
  nowMs: number,
): BenchResults {
  const { url, clients, rate, requests, promptTokens, sharedPrefixTokens, outputTokens, turns, seed } = options;
  const seconds = tally.elapsedMs(nowMs) / 1000;
  const { answeredCount: answered, failedCount: failed, countedAnswers } = tally;
  return {
    url,
    model: calibration.model,
    load: { clients, rate, requests, promptTokens, sharedPrefixTokens, outputTokens, turns, seed },
    ended,
    elapsedSeconds: seconds,
    requests: {
      sent: tally.sentCount,
      answered,
      failed,
      notSent: tally.notSentCount,
      unfinished: tally.unfinishedCount,
    },
    failures: [...tally.failures].map(([kind, failure]) => ({ kind, ...failure })).sort((a, b) => b.count - a.count),
    latencyMs: {
      firstToken: percentiles(tally.firstToken),
      firstTokenOfFirstTurn: percentiles(tally.firstTokenByTurn.first),
      firstTokenOfLaterTurns: percentiles(tally.firstTokenByTurn.later),
      interToken: percentiles(tally.interToken),
      endToEnd: percentiles(tally.endToEnd),
    },
    requestsPerSecond: answered / seconds,
    outputTokensPerSecond: tally.outputTokens / seconds,
    tokens: {
      prompt: countedAnswers > 0 ? tally.promptTokens / countedAnswers : null,
      cachedPrompt: countedAnswers > 0 ? tally.cachedTokens / countedAnswers : null,
      output: tally.outputTokens / answered,
      countedBy: answered > 0 && countedAnswers === answered ? 'server' : 'chunks',
      perChunk: tally.outputTokens / tally.chunkCount,
    },
    goodput: options.goodput && {
      limits: options.goodput,
      // What failed or could not even be sent was not good; what Ctrl-C cut off is not known.
      share: tally.goodCount / (answered + failed + tally.notSentCount),
      requestsPerSecond: tally.goodCount / seconds,
    },
    notes: notesOf(options, calibration, tally),
  };
}

function percentiles(histogram: LatencyHistogram): Percentiles {
  const at = (share: number) => histogram.percentileMs(share);
  return {
    count: histogram.count,
    mean: histogram.meanMs,
    p50: at(0.5),
    p90: at(0.9),
    p95: at(0.95),
    p99: at(0.99),
    max: histogram.maxMs,
  };
}

function notesOf({ outputTokens }: BenchOptions, { dialect, isCounted }: Calibration, tally: Tally): string[] {
  const notes: string[] = [];
  if (tally.answeredCount === 0) return notes;
  if (tally.countedAnswers < tally.answeredCount)
    notes.push('The server sends no usage: each chunk of the stream counts as one token.');
  if (!isCounted) notes.push('The length of prompts is a guess of one token a word: the server does not count them.');
  if (!dialect.ignoreEos) notes.push('The server does not take ignore_eos: answers may end before --output-tokens.');
  else if (tally.outputTokens < tally.answeredCount * outputTokens * 0.99)
    notes.push('Answers are shorter than --output-tokens: the server ends them itself.');
  if (tally.countedAnswers > 0 && tally.outputTokens > tally.chunkCount * 1.05)
    notes.push('Chunks carry several tokens: the inter-token latency above is between chunks.');
  return notes;
}
