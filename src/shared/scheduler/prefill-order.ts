import type { Request } from './request.js';

/**
 * Who gets prompt tokens first in a step: priority; then prompts that end within this step, by arrival; then the long ones, longest
 * unserved first, so that they share the budget round-robin and a short prompt is not stuck behind a long one.
 */
export function orderPrefills(requests: Request[], chunkTokens: number): Request[] {
  const isLong = (request: Request) => request.remaining > chunkTokens;
  return requests.sort(
    (a, b) =>
      a.spec.priority - b.spec.priority ||
      Number(isLong(a)) - Number(isLong(b)) ||
      (isLong(a) ? a.lastServed - b.lastServed : 0) ||
      a.id - b.id,
  );
}
