import { homedir } from 'node:os';
import { join, resolve } from 'node:path';

/** The user's cache folder of Plimsoll: engine source, native engine, peers and models live there, outside the tree. */
export function cacheFolder() {
  const chosen = process.env.PLIMSOLL_CACHE_DIR;
  return chosen ? resolve(chosen) : join(homedir(), '.cache', 'plimsoll');
}
