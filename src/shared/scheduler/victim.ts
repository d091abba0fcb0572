import type { Request } from './request.js';

/**
 * Who gives up its cells when the pool is full: among the least urgent running requests the one that was admitted last, because it has
 * the least to compute again. Requests that the step being planned already has a segment of (`planned`) are safe. null: all are.
 */
export function cheapestVictim(running: readonly Request[], planned: readonly Request[]): Request | null {
  let victim: Request | null = null;
  for (const request of running) {
    if (planned.includes(request)) continue;
    if (victim === null || isCheaper(request, victim)) victim = request;
  }
  return victim;
}

function isCheaper(a: Request, b: Request): boolean {
  if (a.spec.priority !== b.spec.priority) return a.spec.priority > b.spec.priority;
  return a.admittedOrder > b.admittedOrder;
}
