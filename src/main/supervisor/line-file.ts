/** The file of a lowered line. Synchronous: the supervisor writes it between the death of one process and the start of the next. */
import { mkdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { type LineRecord, parseLineRecord, RECORD_BYTES_MAX } from './line-record.js';

/** null: there is none, or what is there is no record. */
export function readLineFile(path: string): LineRecord | null {
  try {
    if (statSync(path).size > RECORD_BYTES_MAX) return null;
    return parseLineRecord(readFileSync(path, 'utf8'));
  } catch {
    return null;
  }
}

/** Whole or not at all, whenever the process or the machine dies. @throws Error of the file system. */
export function writeLineFile(path: string, record: LineRecord): void {
  mkdirSync(dirname(path), { recursive: true });
  const partial = `${path}.${process.pid}.partial`;
  try {
    // Flushed before it takes the name: what writes this has just seen memory run out, and a machine in that state may go next.
    writeFileSync(partial, `${JSON.stringify(record, null, 2)}\n`, { flush: true });
    renameSync(partial, path);
  } catch (error) {
    rmSync(partial, { force: true });
    throw error;
  }
}

/** @throws Error of the file system. */
export function removeLineFile(path: string): void {
  rmSync(path, { force: true });
}
