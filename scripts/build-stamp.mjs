import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

/**
 * Hash over the content of files and over facts that change what a build makes of them (versions, flags). Content, not times:
 * a checkout or a restored cache changes the times of files that are the same.
 *
 * @param {string[]} paths files and folders, relative to the working directory; those that are missing count as empty
 * @param {string[]} facts
 */
export function contentHash(paths, facts) {
  const hash = createHash('sha256');
  for (const fact of facts) hash.update(`${fact}\0`);
  for (const path of paths.flatMap(filesUnder).sort()) hash.update(`${path}\0`).update(readFileSync(path)).update('\0');
  return hash.digest('hex');
}

function filesUnder(path) {
  if (!existsSync(path)) return [];
  const entries = readdirOrUndefined(path);
  return entries ? entries.flatMap((name) => filesUnder(join(path, name))) : [path];
}

function readdirOrUndefined(path) {
  try {
    return readdirSync(path);
  } catch (error) {
    if (error.code === 'ENOTDIR') return undefined;
    throw error;
  }
}

/** True when the last successful build had this hash and all that it made is still there. */
export function isUpToDate(stampFile, hash, outputs) {
  return existsSync(stampFile) && readFileSync(stampFile, 'utf8') === hash && outputs.every((path) => existsSync(path));
}

export function writeStamp(stampFile, hash) {
  mkdirSync(dirname(stampFile), { recursive: true });
  writeFileSync(stampFile, hash);
}
