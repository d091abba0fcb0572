import { readFileSync } from 'node:fs';

export interface ProcessMemory {
  residentBytes: number;
  /** Resident pages of the model's file. */
  modelFileBytes: number;
}

/** Resident memory of a process, from /proc/<pid>/smaps. @throws Error where there is no /proc. */
export function processMemory(pid: number, modelPath: string): ProcessMemory {
  const memory: ProcessMemory = { residentBytes: 0, modelFileBytes: 0 };
  let isModel = false;
  for (const line of readFileSync(`/proc/${pid}/smaps`, 'utf8').split('\n')) {
    // A mapping's first line ends with its file; the lines after it are fields of it.
    if (/^[0-9a-f]+-[0-9a-f]+ /.test(line)) isModel = line.endsWith(modelPath);
    const rss = /^Rss: +(\d+) kB/.exec(line);
    if (rss === null) continue;
    const bytes = Number(rss[1]) * 1024;
    memory.residentBytes += bytes;
    if (isModel) memory.modelFileBytes += bytes;
  }
  return memory;
}
