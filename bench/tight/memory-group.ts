import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type GroupVersion, readKills, readUse, workingSetBytes } from './memory-files.js';

const V1_ROOT = '/sys/fs/cgroup/memory';
const V2_ROOT = '/sys/fs/cgroup';
/** A group can be removed when its last process is gone for good; that takes the kernel some milliseconds. Chosen. */
const REMOVE_ATTEMPTS = 50;
const REMOVE_PAUSE_MS = 100;

interface Place {
  parent: string;
  version: GroupVersion;
}

/** Where a group can be made, or the reason why none can. */
export function findMemoryGroups(): Place | { reason: string } {
  if (process.platform !== 'linux') return { reason: 'memory groups are a thing of Linux' };
  if (process.getuid?.() !== 0) return { reason: 'only root can make memory groups' };
  const place = existsSync(path.join(V1_ROOT, 'memory.limit_in_bytes')) ? findV1() : findV2();
  if (place === null) return { reason: 'no memory controller can be given to a new group' };
  const probe = path.join(place.parent, `plimsoll-probe-${process.pid}`);
  try {
    mkdirSync(probe);
    const canLimit = existsSync(path.join(probe, LIMIT_FILE[place.version]));
    rmdirSync(probe);
    return canLimit ? place : { reason: `groups in ${place.parent} have no memory limit` };
  } catch (error) {
    return { reason: `no group can be made in ${place.parent}: ${(error as Error).message}` };
  }
}

const LIMIT_FILE: Record<GroupVersion, string> = { v1: 'memory.limit_in_bytes', v2: 'memory.max' };

function ownGroup(controller: string): string {
  const lines = readFileSync('/proc/self/cgroup', 'utf8').split('\n');
  const line = lines.find((candidate) => candidate.split(':')[1]?.split(',').includes(controller));
  return line?.split(':').slice(2).join(':') ?? '/';
}

/** Inside this process's own group: a limit on us holds for what we start. */
function findV1(): Place | null {
  const nested = path.join(V1_ROOT, ownGroup('memory'));
  return { parent: existsSync(nested) ? nested : V1_ROOT, version: 'v1' };
}

/** The nearest group above that hands the memory controller down: one with processes in it may not. */
function findV2(): Place | null {
  for (let folder = path.join(V2_ROOT, ownGroup('')); folder.startsWith(V2_ROOT); folder = path.dirname(folder)) {
    const file = path.join(folder, 'cgroup.subtree_control');
    if (!existsSync(file)) continue;
    if (readFileSync(file, 'utf8').trim().split(' ').includes('memory')) return { parent: folder, version: 'v2' };
    try {
      writeFileSync(file, '+memory');
      return { parent: folder, version: 'v2' };
    } catch {
      // It has processes of its own, or is not ours: try its parent.
    }
  }
  return null;
}

/** Groups that are there now: whatever ends the benchmark removes them too. */
const standing = new Set<MemoryGroup>();
process.on('exit', () => {
  for (const group of standing) group.removeAtExit();
});

/** A memory group with a limit and no swap. Whoever makes one removes it. */
export class MemoryGroup {
  private constructor(
    readonly folder: string,
    readonly version: GroupVersion,
    readonly limitBytes: number,
  ) {}

  /** @throws Error with the reason where no group can be made. */
  static create(name: string, limitBytes: number): MemoryGroup {
    const place = findMemoryGroups();
    if ('reason' in place) throw new Error(place.reason);
    const folder = path.join(place.parent, `plimsoll-${name}-${process.pid}-${Math.round(performance.now())}`);
    mkdirSync(folder);
    const group = new MemoryGroup(folder, place.version, limitBytes);
    group.write(LIMIT_FILE[place.version], limitBytes);
    // Kernels without swap accounting lack these files; there is nothing to limit then.
    if (place.version === 'v1') group.write('memory.memsw.limit_in_bytes', limitBytes);
    else group.write('memory.swap.max', 0);
    standing.add(group);
    return group;
  }

  /** The command, so that it runs inside the group from its first instruction. */
  wrap(command: string, args: readonly string[]): { command: string; args: string[] } {
    const script = `echo $$ > '${path.join(this.folder, 'cgroup.procs')}' && exec "$@"`;
    return { command: 'sh', args: ['-c', script, 'sh', command, ...args] };
  }

  get workingSetBytes(): number {
    return workingSetBytes(readUse(this.folder, this.version));
  }

  get kills(): number {
    return readKills(this.folder, this.version);
  }

  /** Ends what still runs in it, and removes it. @throws Error when that does not succeed. */
  async remove(): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      try {
        this.removeNow();
        return;
      } catch (error) {
        if (attempt === REMOVE_ATTEMPTS) throw error;
        await sleep(REMOVE_PAUSE_MS);
      }
    }
  }

  /** As `remove`, without waiting longer than a dying process takes. */
  removeAtExit(): void {
    const pause = new Int32Array(new SharedArrayBuffer(4));
    for (let attempt = 1; attempt <= REMOVE_ATTEMPTS && standing.has(this); attempt++) {
      try {
        this.removeNow();
      } catch {
        Atomics.wait(pause, 0, 0, REMOVE_PAUSE_MS);
      }
    }
  }

  private removeNow(): void {
    for (const pid of this.processes()) killQuietly(pid);
    rmdirSync(this.folder);
    standing.delete(this);
  }

  private processes(): number[] {
    const text = readFileSync(path.join(this.folder, 'cgroup.procs'), 'utf8');
    return text.split('\n').filter(Boolean).map(Number);
  }

  private write(file: string, value: number): void {
    const target = path.join(this.folder, file);
    if (existsSync(target)) writeFileSync(target, String(value));
  }
}

function killQuietly(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // It has ended meanwhile.
  }
}
