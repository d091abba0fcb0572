/** A checked file in the cache: `NAME.sha256` beside it says that these bytes were checked, so no start reads gigabytes to be sure. */
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { mkdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { lockFile } from './file-lock.js';
import type { OnModelProgress } from './model-progress.js';

export interface StoredFile {
  path: string;
  sha256: string | null;
  sizeBytes: number | null;
}

/** Whether the file is here, whole, and was checked. A file that somebody else put there is read once and then believed. */
export async function isStored({ path, sha256, sizeBytes }: StoredFile): Promise<boolean> {
  const size = await stat(path).then(
    (found) => (found.isFile() ? found.size : -1),
    () => -1,
  );
  if (size < 0 || (sizeBytes !== null && size !== sizeBytes)) return false;
  if (sha256 === null) return true;
  const noted = await readFile(noteOf(path), 'utf8').catch(() => '');
  if (noted.trim() !== '') return noted.trim() === sha256;
  const hash = createHash('sha256');
  await pipeline(createReadStream(path), hash);
  if (hash.digest('hex') !== sha256) return false;
  await noteChecked(path, sha256);
  return true;
}

/** Makes sure that `file` is stored; `fetch` runs when it is not, in one process at a time. */
export async function storeFile(
  file: StoredFile,
  fetch: () => Promise<void>,
  options: { onProgress?: OnModelProgress | undefined; signal?: AbortSignal | undefined },
): Promise<void> {
  if (await isStored(file)) return;
  await mkdir(dirname(file.path), { recursive: true });
  const lock = await lockFile(file.path, options.signal, (pid) =>
    options.onProgress?.({ kind: 'note', text: `waiting for process ${pid}, which is downloading the same file` }),
  );
  try {
    // The process that was waited for may have brought it.
    if (await isStored(file)) return;
    // First the note goes: a crash after the new file is in place must not leave the old file's checksum beside it.
    await rm(noteOf(file.path), { force: true });
    await fetch();
    if (file.sha256 !== null) await noteChecked(file.path, file.sha256);
  } finally {
    await lock.release();
  }
}

async function noteChecked(path: string, sha256: string): Promise<void> {
  // A folder that cannot be written (a shared, read-only cache) only costs the next start another look.
  await writeFile(noteOf(path), `${sha256}\n`).catch(() => {});
}

function noteOf(path: string): string {
  return `${path}.sha256`;
}
