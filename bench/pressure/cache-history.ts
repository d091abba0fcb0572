import { median } from '../measure/statistics.js';
import type { GaugeSample } from './load-line.js';

/** A part of a long run. */
export interface CachePart {
  /** Cached cells, as a share of all, in the middle. */
  cachedShare: number;
  /** Prompt tokens that were found in the cache, as a share of all prompt tokens. */
  hitShare: number;
  evictions: number;
}

/** The run in `count` parts of equal time: what is cached should rise and stay, and what is found should stay. */
export function cacheHistory(samples: readonly GaugeSample[], count: number): CachePart[] {
  const [startMs, endMs] = [samples[0]?.atMs ?? 0, samples.at(-1)?.atMs ?? 0];
  return Array.from({ length: count }, (_, i) => {
    const from = startMs + ((endMs - startMs) * i) / count;
    const to = startMs + ((endMs - startMs) * (i + 1)) / count;
    const part = samples.filter(({ atMs }) => atMs >= from && atMs <= to);
    const grown = (key: 'prefixHitTokens' | 'prefixLookupTokens' | 'evictions') =>
      (part.at(-1)?.[key] ?? 0) - (part[0]?.[key] ?? 0);
    return {
      cachedShare: median(part.map((sample) => sample.kvCachedTokens / Math.max(1, sample.kvTotalTokens))),
      hitShare: grown('prefixHitTokens') / Math.max(1, grown('prefixLookupTokens')),
      evictions: grown('evictions'),
    };
  });
}
