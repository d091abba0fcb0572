/** What a context's sequences may take on their way into the next context, in tokens. */
export interface CarryBudget {
  /** Of copies in memory. */
  copyTokens: number;
  /** Of what is written to a file meanwhile, and of the longest sequence there. */
  spillTokens: number;
  spillLongestTokens: number;
}

/** Sequences that go into the next context, in the order in which they matter. */
export interface CarryOver {
  copied: number[];
  spilled: number[];
}

export const CARRY_NOTHING: CarryBudget = { copyTokens: 0, spillTokens: 0, spillLongestTokens: 0 };
