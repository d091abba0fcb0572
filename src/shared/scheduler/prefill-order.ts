import type { Request } from './request.js';

export interface Prefills {
  /** End within a step of `chunkTokens`: by priority and arrival. */
  short: Request[];
  /** The others: by priority, longest unserved first, so that they share the budget round-robin. */
  long: Request[];
}

/** Running requests that still compute known tokens, in the order in which a step serves them. */
export function splitPrefills(running: readonly Request[], chunkTokens: number): Prefills {
  const short: Request[] = [];
  const long: Request[] = [];
  for (const request of running) {
    if (request.isRestoring || request.isDecoding || request.remaining === 0) continue;
    (request.remaining > chunkTokens ? long : short).push(request);
  }
  short.sort((a, b) => a.spec.priority - b.spec.priority || a.id - b.id);
  long.sort((a, b) => a.spec.priority - b.spec.priority || a.lastServed - b.lastServed);
  return { short, long };
}
