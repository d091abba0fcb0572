/** The form of a vectors file: constants, and rows of a kind with inputs and expected values. Only the fields named are compared. */
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
export type Fields = { [key: string]: Json };

export interface VectorRow {
  id: string;
  kind: string;
  note?: string;
  inputs: Fields;
  expected: Json;
}

export interface VectorFile {
  constants?: Fields;
  rows: VectorRow[];
}

export function parseVectors(text: string): VectorFile {
  const file = JSON.parse(text) as VectorFile;
  if (!Array.isArray(file.rows) || file.rows.length === 0) throw new Error('a vectors file has a list "rows"');
  for (const row of file.rows) {
    if (typeof row.id !== 'string' || typeof row.kind !== 'string' || typeof row.inputs !== 'object') {
      throw new Error(`a row needs id, kind and inputs: ${JSON.stringify(row).slice(0, 120)}`);
    }
  }
  return file;
}

/** A number among the inputs. @throws when it is absent. */
export function number(row: VectorRow, name: string): number {
  const value = row.inputs[name];
  if (typeof value !== 'number') throw new Error(`input ${name} must be a number, is ${JSON.stringify(value)}`);
  return value;
}

/** A number among the inputs; null where it is null or absent. */
export function numberOrNull(row: VectorRow, name: string): number | null {
  const value = row.inputs[name];
  if (value === undefined || value === null) return null;
  return number(row, name);
}

/** Inputs that no reader knows: a vector must not pass because half of it was not read. */
export function unknownInputs(row: VectorRow, known: readonly string[]): string[] {
  return Object.keys(row.inputs).filter((name) => !known.includes(name));
}

/** Paths at which `got` differs from `expected`. Fields that are not expected are not compared. */
export function differences(expected: Json, got: Json | undefined, path = ''): string[] {
  const isFields = (value: Json | undefined): value is Fields =>
    typeof value === 'object' && value !== null && !Array.isArray(value);
  if (isFields(expected) && isFields(got)) {
    return Object.keys(expected).flatMap((key) => differences(expected[key], got[key], path ? `${path}.${key}` : key));
  }
  if (Array.isArray(expected) && Array.isArray(got) && expected.length === got.length) {
    return expected.flatMap((item, i) => differences(item, got[i], `${path}[${i}]`));
  }
  return JSON.stringify(expected) === JSON.stringify(got) ? [] : [path || 'result'];
}
