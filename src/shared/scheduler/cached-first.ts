import type { Request } from './request.js';
import type { SequencePool } from './sequence-pool.js';

/** A request is overtaken so often at most. Chosen: with answers of some seconds each it waits half a minute longer in the worst case. */
const OVERTAKEN_MAX = 4;
/** What must be saved by it. Chosen: one small chunk. */
const SAVED_MIN_TOKENS = 64;
/** Waiting requests that are looked at. Chosen: bounds the plan's time. */
const SCAN_MAX = 16;

/**
 * The waiting requests in the order in which they are admitted: that of the queue, but for one whose prefix would be lost otherwise. Where
 * the first of the queue would take the place of a cached prefix from which one behind it goes on, that one goes first: the work is less and
 * the next place comes sooner, for all. Nobody of higher priority is overtaken, and nobody for ever.
 */
export function cachedFirst(waiting: readonly Request[], pool: SequencePool): readonly Request[] {
  const [first] = waiting;
  if (waiting.length < 2 || first.overtakenCount >= OVERTAKEN_MAX) return waiting;
  const match = pool.findPrefix(first);
  if (!pool.wouldEvict(match)) return waiting;
  const home = pool.chooseHome(match);
  let mostTokens = SAVED_MIN_TOKENS - 1 + (match?.sequence === home ? match.count : 0);
  let best: Request | null = null;
  for (const other of waiting.slice(1, SCAN_MAX)) {
    if (other.spec.priority !== first.spec.priority) break;
    const found = pool.findPrefix(other);
    if (found?.sequence !== home || found.count <= mostTokens) continue;
    mostTokens = found.count;
    best = other;
  }
  return best === null ? waiting : [best, ...waiting.filter((request) => request !== best)];
}
