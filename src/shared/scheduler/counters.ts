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
  /** Prefixes that were written to disk, came back from there, were removed for others, and could not be read or written. */
  diskPrefixSaves: number;
  diskPrefixHits: number;
  diskPrefixHitTokens: number;
  diskPrefixEvictions: number;
  diskPrefixErrors: number;
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
    diskPrefixSaves: 0,
    diskPrefixHits: 0,
    diskPrefixHitTokens: 0,
    diskPrefixEvictions: 0,
    diskPrefixErrors: 0,
    draftedTokens: 0,
    acceptedDraftTokens: 0,
  };
}
