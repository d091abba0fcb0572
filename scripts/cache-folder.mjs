import { homedir } from 'node:os';
import { join, resolve } from 'node:path';

/**
 * The user's cache folder of Plimsoll: engine source, native engine, peers and models live there, outside the tree. The same rule as
 * src/main/models/cache-folder.ts, written again because these scripts run before anything is compiled; a test compares the two.
 *
 * @param {Readonly<Record<string, string | undefined>>} env
 * @param {NodeJS.Platform} platform
 */
export function cacheFolder(env = process.env, platform = process.platform) {
  if (env.PLIMSOLL_CACHE_DIR) return resolve(env.PLIMSOLL_CACHE_DIR);
  if (env.XDG_CACHE_HOME) return join(resolve(env.XDG_CACHE_HOME), 'plimsoll');
  const home = env.HOME || homedir();
  return platform === 'darwin' ? join(home, 'Library', 'Caches', 'plimsoll') : join(home, '.cache', 'plimsoll');
}
