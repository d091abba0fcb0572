/** What a context's sequences may take on their way into the next context, in tokens. */
export interface CarryBudget {
  /** Of copies in memory. */
  copyTokens: number;
  /** Of what is written to a file meanwhile, and of the longest sequence there. */
  spillTokens: number;
  spillLongestTokens: number;
}

/** A sequence on its way into the next context, which may have fewer of them: it goes on under another number there. */
export interface SequenceMove {
  from: number;
  to: number;
}

/** Sequences that go into the next context, in the order in which they matter. */
export interface CarryOver {
  copied: SequenceMove[];
  spilled: SequenceMove[];
}

export const CARRY_NOTHING: CarryBudget = { copyTokens: 0, spillTokens: 0, spillLongestTokens: 0 };

/** Where `ids` go in a context of `sequences` sequences, of which they are no more: each keeps its number where there is one. */
export function placesFor(ids: readonly number[], sequences: number): Map<number, number> {
  const kept = new Set(ids.filter((id) => id < sequences));
  const free = Array.from({ length: sequences }, (_, id) => id).filter((id) => !kept.has(id));
  return new Map(ids.map((id) => [id, kept.has(id) ? id : (free.shift() as number)]));
}
