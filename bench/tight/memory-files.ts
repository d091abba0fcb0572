import { readFileSync } from 'node:fs';
import path from 'node:path';

export type GroupVersion = 'v1' | 'v2';

/** What the kernel says about a memory group, bytes. */
export interface GroupUse {
  useBytes: number;
  /** File cache that the kernel would drop first. */
  inactiveFileBytes: number;
}

const USE_FILE: Record<GroupVersion, string> = { v1: 'memory.usage_in_bytes', v2: 'memory.current' };
const INACTIVE_KEY: Record<GroupVersion, string> = { v1: 'total_inactive_file', v2: 'inactive_file' };
const KILLS_FILE: Record<GroupVersion, string> = { v1: 'memory.oom_control', v2: 'memory.events' };

export function readUse(folder: string, version: GroupVersion): GroupUse {
  const useBytes = Number(readFileSync(path.join(folder, USE_FILE[version]), 'utf8'));
  return { useBytes, inactiveFileBytes: statValue(folder, 'memory.stat', INACTIVE_KEY[version]) };
}

/** Use less the file cache that goes first: what container platforms compare with the limit. */
export function workingSetBytes({ useBytes, inactiveFileBytes }: GroupUse): number {
  return Math.max(0, useBytes - inactiveFileBytes);
}

/** Processes of the group that the kernel has killed for its limit. */
export function readKills(folder: string, version: GroupVersion): number {
  return statValue(folder, KILLS_FILE[version], 'oom_kill');
}

function statValue(folder: string, file: string, key: string): number {
  const text = readFileSync(path.join(folder, file), 'utf8');
  const line = text.split('\n').find((candidate) => candidate.startsWith(`${key} `));
  if (line === undefined) throw new Error(`${path.join(folder, file)} has no ${key}`);
  return Number(line.slice(key.length + 1));
}
