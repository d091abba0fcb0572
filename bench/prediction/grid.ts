import type { KvLayout } from '../../src/shared/engine.js';

/** One start that a user could ask for, every cap by flag. */
export interface GridCell {
  layout: KvLayout;
  sequences: number;
  contextTokens: number;
  chunkTokens: number;
}

const LAYOUTS: readonly KvLayout[] = ['private', 'shared'];
const SEQUENCES = [1, 4, 16];
const CONTEXT_TOKENS = [512, 4096, 16_384];
const CHUNK_TOKENS = [64, 512, 2048];

export const GRID: readonly GridCell[] = LAYOUTS.flatMap((layout) =>
  SEQUENCES.flatMap((sequences) =>
    CONTEXT_TOKENS.flatMap((contextTokens) =>
      CHUNK_TOKENS.map((chunkTokens) => ({ layout, sequences, contextTokens, chunkTokens })),
    ),
  ),
);

/** What a context may take here; beyond it the planner must refuse. Chosen: fits the smallest machine that runs this. */
export const BUDGET_BYTES = 4 * 2 ** 30;

/** Asked for by the project: within the larger of the two. */
export const ERROR_SHARE = 0.03;
export const ERROR_BYTES = 8 * 2 ** 20;

/** What one cell showed. Bytes. */
export interface CellResult {
  cell: GridCell;
  refused: boolean;
  /** KV and compute: of the plan, or of what was asked for where it is refused. */
  plannedBytes: number;
  /** What the process has more with the context and after its step than without, no file's pages counted; 0 where it is refused. */
  takenBytes: number;
}

/** null: as it must be; else what is wrong. */
export function fault({ refused, plannedBytes, takenBytes }: CellResult): string | null {
  if (refused) return plannedBytes > BUDGET_BYTES ? null : `refused, although ${plannedBytes} bytes fit`;
  if (plannedBytes > BUDGET_BYTES) return `accepted, although ${plannedBytes} bytes do not fit`;
  const errorBytes = plannedBytes - takenBytes;
  const allowedBytes = Math.max(ERROR_BYTES, takenBytes * ERROR_SHARE);
  return Math.abs(errorBytes) <= allowedBytes ? null : `planned ${plannedBytes} bytes, took ${takenBytes}`;
}
