import { readdirSync, readFileSync } from 'node:fs';

/** A process and all that descend from it, by /proc; the process alone where there is no /proc. */
export function processTree(pid: number): number[] {
  const pids = [pid];
  for (let i = 0; i < pids.length; i++) pids.push(...children(pids[i]));
  return pids;
}

function children(pid: number): number[] {
  try {
    // Each thread has its own list of the processes that it started.
    return readdirSync(`/proc/${pid}/task`).flatMap((thread) =>
      readFileSync(`/proc/${pid}/task/${thread}/children`, 'utf8').split(' ').filter(Boolean).map(Number),
    );
  } catch {
    return [];
  }
}

/** CPU milliseconds of a process so far, all threads; NaN where it cannot be known. */
export function processCpuMs(pid: number): number {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // The name in parentheses may hold spaces. utime and stime are the 12th and 13th fields after it, in USER_HZ ticks of 10 ms.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return (Number(fields[11]) + Number(fields[12])) * 10;
  } catch {
    return Number.NaN;
  }
}
