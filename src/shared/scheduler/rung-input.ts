import type { RungInput } from '../memory/rung-policy.js';
import type { Scheduler } from './scheduler.js';

/** What a scheduler holds and wishes for, beside what its caller has read. */
export function rungInputOf(
  scheduler: Scheduler,
  read: Pick<RungInput, 'nowMs' | 'rung' | 'headroomBytes' | 'reclaimableBytes' | 'pressureLevel'>,
): RungInput {
  const cells = scheduler.cellCounts();
  return {
    ...read,
    wantedCells: scheduler.wantedCells,
    wantedSequences: scheduler.wantedSequences,
    longestCells: scheduler.longestCells,
    usedCells: cells.used,
    activeCells: cells.used - cells.cached,
    runningRequests: scheduler.runningCount,
    isStalled: scheduler.isStalled,
    hasWork: scheduler.activeCount > 0,
  };
}
