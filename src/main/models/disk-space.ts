import { statfs } from 'node:fs/promises';
import { ModelError } from './model-error.js';

/** Left free on the user's disk after a download. Chosen: below it a desktop begins to fail in other places. */
const MARGIN_BYTES = 256 * 1024 * 1024;

/** @throws ModelError no_space when `folder`'s file system cannot take `bytes` more. */
export async function requireDiskSpace(folder: string, bytes: number): Promise<void> {
  const { bavail, bsize } = await statfs(folder);
  const freeBytes = bavail * bsize;
  if (bytes + MARGIN_BYTES <= freeBytes) return;
  throw new ModelError(
    'no_space',
    `not enough disk space in ${folder}: ${formatBytes(bytes)} and a margin of ${formatBytes(MARGIN_BYTES)} are needed, ` +
      `${formatBytes(freeBytes)} are free (PLIMSOLL_CACHE_DIR moves the cache)`,
  );
}

/** 98.4 MB, 4.2 GB: decimal, as disks and download pages count. */
export function formatBytes(bytes: number): string {
  const units = ['B', 'kB', 'MB', 'GB', 'TB'];
  const step = bytes < 1 ? 0 : Math.min(Math.floor(Math.log10(bytes) / 3), units.length - 1);
  return step === 0 ? `${bytes} B` : `${(bytes / 1000 ** step).toFixed(1)} ${units[step]}`;
}
