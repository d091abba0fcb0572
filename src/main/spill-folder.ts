import { mkdirSync, statfsSync } from 'node:fs';
import path from 'node:path';

/** File systems that lie in memory: what is written there takes what it should save. Derived from Linux's magic numbers of tmpfs and ramfs. */
const MEMORY_FILE_SYSTEMS = [0x0102_1994, 0x8584_58f6];

/** Where sequences wait while a context is replaced under memory pressure; null: nowhere, they are computed again. */
export function spillFolder(cacheFolder: string): string | null {
  const folder = path.join(cacheFolder, 'spill');
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    return MEMORY_FILE_SYSTEMS.includes(statfsSync(folder).type) ? null : folder;
  } catch {
    // A cache that cannot be written costs speed in need, and no start.
    return null;
  }
}
