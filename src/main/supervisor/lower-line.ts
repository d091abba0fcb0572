import { readLineFile, writeLineFile } from './line-file.js';
import { LINE_FLOOR, loweredLine } from './line-record.js';
import type { Birth, LineTarget } from './protocol.js';

export interface LoweredLine {
  /** What the next process has to be told because no file tells it. */
  carried: Birth['carried'];
  log: string[];
}

/** Lowers the line that the dead process kept, and remembers it. */
export function lowerLine(target: LineTarget, carried: Birth['carried'], because: string, atMs: number): LoweredLine {
  const { path, fraction, subject } = target;
  const before = readLineFile(path) ?? (carried?.path === path ? carried.record : null);
  const record = loweredLine(before, fraction, { because, atMs }, subject);
  const percent = `${Math.round(record.fraction * 1000) / 10} %`;
  const log = [
    record.fraction === fraction
      ? `the line stays at ${percent} of the memory limit: it is not lowered below ${LINE_FLOOR * 100} %`
      : `the line is lowered to ${percent} of the memory limit (${path})`,
  ];
  try {
    writeLineFile(path, record);
    return { carried: null, log };
  } catch (error) {
    log.push(`the lower line is not remembered after this run: ${error instanceof Error ? error.message : error}`);
    return { carried: { path, record }, log };
  }
}
