import { CONSTANTS_OF_VECTORS } from './constants-row.js';
import { gateRow, liveChunkRow, maxRunningRow, probeRow, safeChunkRow } from './live-rows.js';
import { STARTUP_INPUTS, startupRow } from './startup-row.js';
import { differences, type Json, unknownInputs, type VectorFile, type VectorRow } from './vectors.js';

interface Kind {
  inputs: readonly string[];
  run(row: VectorRow): Json;
}

const KINDS: Readonly<Record<string, Kind>> = {
  startup: { inputs: STARTUP_INPUTS, run: startupRow },
  max_running: { inputs: ['budget', 'cache', 'act', 'C', 'user'], run: maxRunningRow },
  gate: { inputs: ['act', 'L', 'A', 'F', 'new', 'ctx', 'cap', 'cache', 'reusable'], run: gateRow },
  live_chunk: { inputs: ['act', 'cap', 'C', 'L', 'A', 'F', 'cache', 'reusable'], run: liveChunkRow },
  probe: {
    inputs: ['L', 'C', 'cap', 'act', 'F', 'R', 'baseline', 'peak', 'ctx', 'held', 'chunk'],
    run: probeRow,
  },
  safe_chunk: { inputs: ['headroom', 'act', 'C'], run: safeChunkRow },
};

export interface RowResult {
  row: VectorRow;
  got: Json;
  /** Where got and expected differ, or why the row could not run. Empty: it passes. */
  problems: string[];
}

/** Results of all rows, after one for the file's constants where they are not ours: rows that pass by other constants prove nothing. */
export function runVectors(file: VectorFile): RowResult[] {
  const results = file.rows.map(runRow);
  const problems = file.constants ? differences(file.constants, CONSTANTS_OF_VECTORS) : [];
  if (file.constants && problems.length > 0) {
    const row = { id: 'constants', kind: 'constants', inputs: {}, expected: file.constants };
    results.unshift({ row, got: CONSTANTS_OF_VECTORS, problems });
  }
  return results;
}

function runRow(row: VectorRow): RowResult {
  const kind = Object.hasOwn(KINDS, row.kind) ? KINDS[row.kind] : null;
  if (kind === null) return { row, got: null, problems: [`unknown kind ${row.kind}`] };
  const strangers = unknownInputs(row, kind.inputs);
  if (strangers.length > 0) return { row, got: null, problems: [`unknown inputs ${strangers.join(', ')}`] };
  try {
    const got = kind.run(row);
    return { row, got, problems: differences(row.expected, got) };
  } catch (error) {
    return { row, got: null, problems: [error instanceof Error ? error.message : String(error)] };
  }
}
