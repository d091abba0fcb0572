import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import t from 'tap';
import { cacheFolder } from '../../src/main/models/cache-folder.js';
import { packageRoot } from '../../src/main/package-root.js';

const ENVIRONMENTS: Record<string, string>[] = [
  { HOME: '/home/u' },
  { HOME: '/home/u', XDG_CACHE_HOME: '/var/cache/u' },
  { HOME: '/home/u', XDG_CACHE_HOME: '/var/cache/u', PLIMSOLL_CACHE_DIR: 'here' },
  { HOME: '/home/u', XDG_CACHE_HOME: '', PLIMSOLL_CACHE_DIR: '' },
  {},
];

t.test('the scripts keep their things where the server looks for them', async (t) => {
  const script = pathToFileURL(join(packageRoot, 'scripts', 'cache-folder.mjs')).href;
  const { cacheFolder: ofScripts } = (await import(script)) as { cacheFolder: typeof cacheFolder };
  for (const env of ENVIRONMENTS)
    for (const platform of ['linux', 'darwin'] as const)
      t.equal(ofScripts(env, platform), cacheFolder(env, platform), `${JSON.stringify(env)} on ${platform}`);
  t.equal(ofScripts({ HOME: '/home/u' }, 'darwin'), '/home/u/Library/Caches/plimsoll');
});
