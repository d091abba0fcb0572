/**
 * One writer for a file, across processes. The lock is a file beside it with the holder's process id; its time is renewed while
 * it is held, so a lock left behind by a killed process, by a process id that was used again or by another machine of a shared
 * folder is told from a live one.
 */
import { link, open, readFile, rename, rm, stat, utimes } from 'node:fs/promises';
import { hostname } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { throwIfCancelled } from './model-error.js';

/** Chosen: often enough that a sleeping laptop or a slow disk stays far from STALE_MS. */
const RENEW_MS = 5_000;
const STALE_MS = 60_000;
const POLL_MS = 250;

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
    if (await tryCreate(lockPath)) return hold(lockPath);
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

async function tryCreate(lockPath: string): Promise<boolean> {
  try {
    const file = await open(lockPath, 'wx');
    await file.writeFile(JSON.stringify({ pid: process.pid, host: hostname(), nonce: Math.random() }));
    await file.close();
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  }
}

function hold(lockPath: string): FileLock {
  const timer = setInterval(() => {
    const now = new Date();
    utimes(lockPath, now, now).catch(() => {});
  }, RENEW_MS);
  timer.unref();
  return {
    async release() {
      clearInterval(timer);
      await rm(lockPath, { force: true });
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
    // An empty lock is one that is being written this moment, unless it stays so.
    if (text === '') return { text, pid: 0, isStale: isOld };
    const { pid, host } = JSON.parse(text) as { pid: number; host: string };
    return { text, pid, isStale: isOld || (host === hostname() && !isAlive(pid)) };
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    if (error instanceof SyntaxError) return { text: '', pid: 0, isStale: true };
    throw error;
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // EPERM: there is such a process, of another user.
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

/**
 * Removes a stale lock. Two processes may find the same one stale: the slower must not remove the lock that the faster has made
 * since, so the file is moved aside first, looked at, and put back when it is not the one that was judged.
 */
async function steal(lockPath: string, judged: string): Promise<void> {
  const aside = `${lockPath}.${process.pid}.${Math.random().toString(36).slice(2)}`;
  try {
    await rename(lockPath, aside);
  } catch {
    return;
  }
  if ((await readFile(aside, 'utf8')) !== judged) await link(aside, lockPath).catch(() => {});
  await rm(aside, { force: true });
}
