/** Whether the kernel's OOM killer was at work: its counters, before and after. Linux only; elsewhere there are none. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/** null: there is no such counter here. */
export interface OomKills {
  /** Of this process's cgroup. */
  cgroup: number | null;
  /** Of the whole machine. */
  machine: number | null;
}

/** `root`: where /proc and /sys are. */
export function readOomKills(root = '/'): OomKills {
  return {
    cgroup: cgroupKills(root),
    machine: counterIn(join(root, 'proc/vmstat')),
  };
}

/** What the counters say of a death between the two readings; null: nothing. */
export function oomSentence(before: OomKills, after: OomKills): string | null {
  if (hasRisen(before.cgroup, after.cgroup)) return "the kernel's OOM killer (the cgroup counted it)";
  // A cgroup that counts and did not count this one: whatever was killed elsewhere was something else.
  if (before.cgroup !== null && after.cgroup !== null) return null;
  if (hasRisen(before.machine, after.machine)) return "the kernel's OOM killer (the machine counted a kill)";
  return null;
}

function hasRisen(before: number | null, after: number | null): boolean {
  return before !== null && after !== null && after > before;
}

/** The folder that /proc/self/cgroup names is the host's; in a container the cgroup is often mounted at the top instead. */
function cgroupKills(root: string): number | null {
  const lines = (readText(join(root, 'proc/self/cgroup')) ?? '').split('\n').map((line) => line.split(':'));
  const unified = lines.find(([id, controllers]) => id === '0' && controllers === '');
  const memory = lines.find(([, controllers]) => controllers?.split(',').includes('memory'));
  const files: string[] = [];
  if (memory) {
    const folder = join(root, 'sys/fs/cgroup/memory');
    files.push(join(folder, memory.slice(2).join(':'), 'memory.oom_control'), join(folder, 'memory.oom_control'));
  }
  if (unified) {
    const folder = join(root, 'sys/fs/cgroup');
    files.push(join(folder, unified.slice(2).join(':'), 'memory.events'), join(folder, 'memory.events'));
  }
  for (const file of files) {
    const count = counterIn(file);
    if (count !== null) return count;
  }
  return null;
}

/** All three files have a line `oom_kill N`. */
function counterIn(path: string): number | null {
  const match = /^oom_kill (\d+)$/m.exec(readText(path) ?? '');
  return match ? Number(match[1]) : null;
}

function readText(path: string): string | null {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return null;
  }
}
