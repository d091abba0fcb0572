/**
 * The lowered line, as it is remembered for a model on a device of a machine. Pure. A death of memory lowers the line by a step; hours
 * of work without one raise it by a step again, so that one crash is not for ever and ten do not go unnoticed.
 */

/** Share of the line that is left after a death. Chosen: in the field 1 % of the limit was too little and 2 % held; five times that ends
 *  a loop of crashes soon and still leaves most of the machine. */
const STEP = 0.9;
/** No line is lower. Chosen: what dies at half of the machine does not die of the plan. */
export const LINE_FLOOR = 0.5;
/** Hours of work for a step up. Chosen: the known slow deaths came after 2 to 4 hours of load. */
export const WORKED_MS_PER_STEP = 6 * 60 * 60 * 1000;
/** Chosen: a few hundred bytes are written; whatever is longer was not written here. */
export const RECORD_BYTES_MAX = 4096;
const TEXT_LENGTH_MAX = 300;
const DEATHS_MAX = 1_000_000;

/** What the line belongs to, for a reader of the file. */
export interface LineSubject {
  model: string;
  devices: string;
  machine: string;
}

export interface LineRecord extends LineSubject {
  schema: 1;
  /** Of the memory limit, from LINE_FLOOR to below 1. */
  fraction: number;
  /** The last death, in words. */
  because: string;
  /** When that was, ISO 8601. */
  since: string;
  /** Deaths since the line was last at the limit. */
  deaths: number;
  /** Time with work since the last step, ms. */
  workedMs: number;
}

/** The line after a death. `ranFraction`: what the process that died was told to keep. */
export function loweredLine(
  before: LineRecord | null,
  ranFraction: number,
  death: { because: string; atMs: number },
  subject: LineSubject,
): LineRecord {
  return {
    schema: 1,
    ...subject,
    fraction: Math.max(rounded(ranFraction * STEP), LINE_FLOOR),
    because: death.because.slice(0, TEXT_LENGTH_MAX),
    since: new Date(death.atMs).toISOString(),
    deaths: Math.min((before?.deaths ?? 0) + 1, DEATHS_MAX),
    workedMs: 0,
  };
}

/** The line after `workedMs` more of work without a death; null: it is the limit again. */
export function workedLine(record: LineRecord, workedMs: number): LineRecord | null {
  const total = record.workedMs + workedMs;
  if (total < WORKED_MS_PER_STEP) return { ...record, workedMs: total };
  const fraction = rounded(record.fraction / STEP);
  return fraction < 1 ? { ...record, fraction, workedMs: 0 } : null;
}

/** The record in a file's text; null when it is none. */
export function parseLineRecord(text: string): LineRecord | null {
  try {
    const record = JSON.parse(text) as LineRecord | null;
    return isLineRecord(record) ? record : null;
  } catch {
    return null;
  }
}

function isLineRecord(record: LineRecord | null): record is LineRecord {
  if (typeof record !== 'object' || record === null || record.schema !== 1) return false;
  const { model, devices, machine, because, since, fraction, deaths, workedMs } = record;
  return (
    [model, devices, machine, because].every((text) => typeof text === 'string' && text.length <= TEXT_LENGTH_MAX) &&
    typeof since === 'string' &&
    !Number.isNaN(Date.parse(since)) &&
    isBetween(fraction, LINE_FLOOR, 1) &&
    fraction < 1 &&
    isBetween(deaths, 1, DEATHS_MAX) &&
    isBetween(workedMs, 0, WORKED_MS_PER_STEP)
  );
}

function isBetween(value: unknown, min: number, max: number): boolean {
  return typeof value === 'number' && value >= min && value <= max;
}

function rounded(fraction: number): number {
  return Math.round(fraction * 1000) / 1000;
}
