import { busy } from './busy-row.js';
import { fourChats, sixteenChats } from './chat-rows.js';
import { eightDifferent, eightShared, oneClient } from './closed-loop-rows.js';
import { overload } from './overload-row.js';
import { stall } from './stall-row.js';
import type { TableRow } from './table-row.js';

export const ROWS: readonly TableRow[] = [
  oneClient,
  eightDifferent,
  eightShared,
  fourChats,
  sixteenChats,
  stall,
  overload,
  busy,
];

/** Rows by their ids, in the table's order. @throws RangeError for one that is not there. */
export function rowsNamed(ids: readonly string[]): TableRow[] {
  const unknown = ids.find((id) => ROWS.every((row) => row.id !== id));
  if (unknown !== undefined)
    throw new RangeError(`no row ${unknown}; there are ${ROWS.map(({ id }) => id).join(', ')}`);
  return ROWS.filter(({ id }) => ids.includes(id));
}
