import { readdirSync, readFileSync } from 'node:fs';

/** Clock ticks a second in /proc: USER_HZ, which is 100 on every Linux that Node runs on. */
const TICKS_PER_SECOND = 100;

/** CPU milliseconds of each thread of this process, by thread id; empty where there is no /proc. */
export function threadTimesMs(): Map<string, number> {
  const times = new Map<string, number>();
  try {
    for (const id of readdirSync('/proc/self/task')) {
      // The name in parentheses may hold spaces; utime and stime are the 12th and 13th fields after it.
      const stat = readFileSync(`/proc/self/task/${id}/stat`, 'utf8');
      const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
      times.set(id, ((Number(fields[11]) + Number(fields[12])) * 1000) / TICKS_PER_SECOND);
    }
  } catch {
    // macOS, or a thread that ended meanwhile.
  }
  return times;
}

/** The busiest threads between two looks, CPU milliseconds each, busiest first. */
export function busiestThreadsMs(before: Map<string, number>, after: Map<string, number>, count: number): number[] {
  return [...after]
    .map(([id, ms]) => ms - (before.get(id) ?? 0))
    .sort((a, b) => b - a)
    .slice(0, count);
}
