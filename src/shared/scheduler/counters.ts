/** What the scheduler has done since the start. One object for all parts, whatever context they work on. */
export interface SchedulerCounters {
  evictions: number;
  evictedTokens: number;
  preemptions: number;
  prefixHitTokens: number;
  prefixLookupTokens: number;
  /** Evicted prefixes that were saved in host memory, came back from there, and were given up there. */
  hostPrefixSaves: number;
  hostPrefixHits: number;
  hostPrefixHitTokens: number;
  hostPrefixEvictions: number;
  draftedTokens: number;
  acceptedDraftTokens: number;
}

export function newCounters(): SchedulerCounters {
  return {
    evictions: 0,
    evictedTokens: 0,
    preemptions: 0,
    prefixHitTokens: 0,
    prefixLookupTokens: 0,
    hostPrefixSaves: 0,
    hostPrefixHits: 0,
    hostPrefixHitTokens: 0,
    hostPrefixEvictions: 0,
    draftedTokens: 0,
    acceptedDraftTokens: 0,
  };
}
