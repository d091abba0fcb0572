/**
 * One writer for a file, across processes. The lock is a file beside it with the holder's process id; its time is renewed while
 * it is held, so a lock left behind by a killed process, by a process id that was used again or by another machine of a shared
 * folder is told from a live one.
 */
import { open, readFile, rm, stat, utimes } from 'node:fs/promises';
import { hostname } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { throwIfCancelled } from './model-error.js';

/** Chosen: often enough that a sleeping laptop or a slow disk stays far from STALE_MS. */
const RENEW_MS = 5_000;
const STALE_MS = 60_000;
const POLL_MS = 250;
/** Chosen: a steal is two file operations. */
const STEAL_POLL_MS = 10;

/** Texts of the locks of this process: one with its number that is not among them is of an earlier process of that number, as in a container. */
const ours = new Set<string>();

export interface FileLock {
  release(): Promise<void>;
}

/**
 * Waits until no other process holds the lock of `path`. The wait ends with the holder: its download, its process or its heartbeat.
 * @param onWait called once, if there is somebody to wait for. @throws ModelError cancelled.
 */
export async function lockFile(path: string, signal?: AbortSignal, onWait?: (pid: number) => void): Promise<FileLock> {
  const lockPath = `${path}.lock`;
  let told = false;
  for (;;) {
    throwIfCancelled(signal);
    const text = await tryCreate(lockPath);
    if (text !== null) return hold(lockPath, text);
    const holder = await readHolder(lockPath);
    if (holder === null) continue;
    if (holder.isStale) {
      await steal(lockPath, holder.text);
      continue;
    }
    if (!told) onWait?.(holder.pid);
    told = true;
    await sleep(POLL_MS, undefined, signal ? { signal } : {}).catch(() => {});
  }
}

/** The text of the lock; null: there is one already. */
async function tryCreate(lockPath: string): Promise<string | null> {
  const text = JSON.stringify({ pid: process.pid, host: hostname(), nonce: Math.random() });
  try {
    const file = await open(lockPath, 'wx');
    ours.add(text);
    await file.writeFile(text);
    await file.close();
    return text;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return null;
    throw error;
  }
}

function hold(lockPath: string, text: string): FileLock {
  const timer = setInterval(() => {
    const now = new Date();
    utimes(lockPath, now, now).catch(() => {});
  }, RENEW_MS);
  timer.unref();
  return {
    async release() {
      clearInterval(timer);
      await rm(lockPath, { force: true });
      ours.delete(text);
    },
  };
}

interface Holder {
  text: string;
  pid: number;
  isStale: boolean;
}

/** Null when the lock is gone again. */
async function readHolder(lockPath: string): Promise<Holder | null> {
  try {
    const [text, { mtimeMs }] = await Promise.all([readFile(lockPath, 'utf8'), stat(lockPath)]);
    const isOld = Date.now() - mtimeMs > STALE_MS;
    const holder = parseHolder(text);
    // One that cannot be read is being written this moment, unless it stays so.
    if (holder === null) return { text, pid: 0, isStale: isOld };
    return { text, pid: holder.pid, isStale: isOld || (holder.host === hostname() && !isAlive(holder.pid, text)) };
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
}

function parseHolder(text: string): { pid: number; host: string } | null {
  try {
    return JSON.parse(text) as { pid: number; host: string };
  } catch {
    return null;
  }
}

function isAlive(pid: number, text: string): boolean {
  if (pid === process.pid) return ours.has(text);
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // EPERM: there is such a process, of another user.
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

/**
 * Removes a stale lock. Two processes may find the same one stale, and the slower must not remove, or even move, the lock that the faster
 * has made since: so one at a time, behind a lock of its own, looks once more and removes.
 */
async function steal(lockPath: string, judged: string): Promise<void> {
  const guard = `${lockPath}.steal`;
  const text = await tryCreate(guard);
  if (text === null) {
    await removeIfOld(guard);
    await sleep(STEAL_POLL_MS);
    return;
  }
  try {
    if ((await textOf(lockPath)) === judged) await rm(lockPath, { force: true });
  } finally {
    await rm(guard, { force: true });
    ours.delete(text);
  }
}

/** A process died in the two file operations that a guard stands for. */
async function removeIfOld(guard: string): Promise<void> {
  const found = await stat(guard).catch(() => null);
  if (found !== null && Date.now() - found.mtimeMs > STALE_MS) await rm(guard, { force: true });
}

async function textOf(path: string): Promise<string | null> {
  return readFile(path, 'utf8').catch(() => null);
}
