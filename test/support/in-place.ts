import type { SequenceMove } from '../../src/shared/scheduler/carry-over.js';

/** Sequences that keep their numbers in the next context. */
export function inPlace(...ids: number[]): SequenceMove[] {
  return ids.map((id) => ({ from: id, to: id }));
}
