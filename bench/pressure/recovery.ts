import { median } from '../measure/statistics.js';
import type { BallastTurn } from './ballast.js';
import type { GaugeSample } from './load-line.js';

/** A rate is taken over this long: a step of a slow model is a good part of a second. Chosen. */
const WINDOW_MS = 2_000;
/** Throughput is back when it is this share of what it was. Chosen: prompts and answers alternate, so it is never steady. */
const RECOVERED_SHARE = 0.8;

export interface Recovery {
  /** Tokens a second through the model before the first ballast. */
  calmTokensPerSecond: number;
  /** For each ballast: from its end until throughput was back; Infinity: not before the next one or the end. */
  recoveryMs: number[];
}

export function recoveryOf(samples: readonly GaugeSample[], turns: readonly BallastTurn[], leadInMs: number): Recovery {
  const startMs = samples[0]?.atMs ?? 0;
  const rates = samples.map((sample) => ({ atMs: sample.atMs, rate: rateUntil(samples, sample) }));
  const calm = rates.filter(({ atMs }) => atMs - startMs > WINDOW_MS && atMs - startMs < leadInMs);
  const calmTokensPerSecond = median(calm.map(({ rate }) => rate));
  const recoveryMs = turns.map(({ goneAtMs }, i) => {
    const untilMs = turns[i + 1]?.wholeAtMs ?? Number.POSITIVE_INFINITY;
    const back = rates.find(
      ({ atMs, rate }) => atMs > goneAtMs && atMs < untilMs && rate >= calmTokensPerSecond * RECOVERED_SHARE,
    );
    return back === undefined ? Number.POSITIVE_INFINITY : back.atMs - goneAtMs;
  });
  return { calmTokensPerSecond, recoveryMs };
}

/** Tokens a second in the window that ends with `last`. */
function rateUntil(samples: readonly GaugeSample[], last: GaugeSample): number {
  const first = samples.find((sample) => sample.atMs >= last.atMs - WINDOW_MS);
  if (first === undefined || first === last) return 0;
  return ((last.decodedTokens - first.decodedTokens) / (last.atMs - first.atMs)) * 1000;
}
