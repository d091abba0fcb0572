import type { Request } from './request.js';

/**
 * Who gives up its cells when the pool is full: the last in the order of worth, because it has the least to compute again. Requests that the
 * step being planned already has a segment of (`planned`) are safe. null: all are.
 */
export function cheapestVictim(running: readonly Request[], planned: readonly Request[]): Request | null {
  let victim: Request | null = null;
  for (const request of running) {
    if (planned.includes(request)) continue;
    if (victim === null || byUrgencyAndAge(request, victim) > 0) victim = request;
  }
  return victim;
}

/** Order of running requests by what their cells are worth: the more urgent first, then who was admitted first. */
export function byUrgencyAndAge(a: Request, b: Request): number {
  return a.spec.priority - b.spec.priority || a.admittedOrder - b.admittedOrder;
}
