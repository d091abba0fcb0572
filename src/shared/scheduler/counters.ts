/** What the scheduler has done since the start. One object for all parts, whatever context they work on. */
export interface SchedulerCounters {
  evictions: number;
  evictedTokens: number;
  preemptions: number;
  prefixHitTokens: number;
  prefixLookupTokens: number;
}

export function newCounters(): SchedulerCounters {
  return { evictions: 0, evictedTokens: 0, preemptions: 0, prefixHitTokens: 0, prefixLookupTokens: 0 };
}
