import { homedir } from 'node:os';
import { join, resolve } from 'node:path';

type Environment = Readonly<Record<string, string | undefined>>;

/** The user's cache folder of Plimsoll: PLIMSOLL_CACHE_DIR, else the platform's own place for caches. */
export function cacheFolder(env: Environment = process.env, platform: NodeJS.Platform = process.platform): string {
  if (env.PLIMSOLL_CACHE_DIR) return resolve(env.PLIMSOLL_CACHE_DIR);
  if (env.XDG_CACHE_HOME) return join(resolve(env.XDG_CACHE_HOME), 'plimsoll');
  const home = env.HOME || homedir();
  return platform === 'darwin' ? join(home, 'Library', 'Caches', 'plimsoll') : join(home, '.cache', 'plimsoll');
}
