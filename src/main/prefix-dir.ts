/** The folder of `--prefix-dir`, before the disk worker has it: that it is there, that it is ours alone, how much it may hold. */
import { constants } from 'node:fs';
import { access, mkdir, statfs } from 'node:fs/promises';
import path from 'node:path';
import { type FileLock, lockFile } from './models/file-lock.js';
import { ModelError } from './models/model-error.js';
import { StartError } from './start-error.js';

/** What an automatic size takes at most, and of what is free on the disk. Chosen: some hundred long conversations, as in host memory; and the disk
 *  is others' in the first place. */
const AUTO_BYTES_MAX = 8 * 2 ** 30;
const AUTO_FREE_SHARE = 0.25;

const REMEDY = 'name another folder, or leave --prefix-dir out';

/** Makes the folder if need be. @throws StartError, which says what to do. */
export async function checkPrefixDir(folder: string): Promise<void> {
  try {
    // Prompts are somebody's words: of this user alone.
    // Not recursively: that never ends in a file system such as /proc, where nothing can be made.
    await mkdir(folder, { mode: 0o700 }).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw error;
    });
    await access(folder, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch (error) {
    throw new StartError('prefix_dir', `--prefix-dir ${folder} cannot be used: ${reasonOf(error)}; ${REMEDY}`);
  }
}

function reasonOf(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException;
  if (code === 'EACCES' || code === 'EPERM') return 'this user may not write there';
  if (code === 'EEXIST' || code === 'ENOTDIR') return 'it is a file, or lies in one';
  if (code === 'ENOENT') return 'the folder that it should lie in does not exist';
  if (code === 'EROFS') return 'its file system is read-only';
  return message;
}

/** The folder for this process; null: another one has it. @throws Error of the file system. */
export async function lockPrefixDir(folder: string): Promise<FileLock | null> {
  const held = new AbortController();
  try {
    return await lockFile(path.join(folder, 'plimsoll-prefixes'), held.signal, () => held.abort());
  } catch (error) {
    if (error instanceof ModelError && error.code === 'cancelled') return null;
    throw error;
  }
}

/** Bytes that all files may take together. `auto` counts what is free beside them. */
export async function prefixDirBytes(folder: string, size: 'auto' | number): Promise<number> {
  if (size !== 'auto') return size;
  const { bavail, bsize } = await statfs(folder);
  return Math.floor(Math.min(bavail * bsize * AUTO_FREE_SHARE, AUTO_BYTES_MAX));
}
