// Fetches the exact source of the engine that the prebuilt libraries were made from. The addon needs its headers, `make engine`
// and `make peer` build it. The npm package `node-llama-cpp` carries it as a git bundle; `npm pack` gets that one tarball
// without its 680 MB of dependencies, through whatever registry and proxy npm is set up for.
//
//   node scripts/engine-headers.mjs           fetch if needed, say where it is
//   node scripts/engine-headers.mjs --print   the same, and print only the folder on stdout
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { createReadStream, existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { pathToFileURL } from 'node:url';
import { cacheFolder } from './cache-folder.mjs';
import { run, runSteps, StepError, say } from './steps.mjs';

export const engineVersion = 'v0.4.0';
export const engineCommit = '80fb11ac73e66d89eae2c6a91d8a77428fa733ed';

const packageName = 'node-llama-cpp';
const packageVersion = '3.21.1';
// `dist.integrity` of that version in the npm registry. The tarball comes from whichever mirror npm uses, so it is checked here.
const packageIntegrity =
  'sha512-E3N0Ev2Va0wzydvXYFwM9Hvyo07PoWjt8T/9GMc43Cvt8YkV/NU/tYUgEMC1grTPv2o9PRjQi0G3Wb5P/awiMg==';
const bundlePath = 'package/llama/gitRelease.bundle';

/** True when `folder` is a complete clone at the pinned commit. It was renamed into place whole, so its HEAD vouches for the rest. */
export function isEngineSource(folder) {
  try {
    return readFileSync(join(folder, '.git', 'HEAD'), 'utf8').trim() === engineCommit;
  } catch {
    return false;
  }
}

/** Where the source is, or will be. */
export function engineSourceFolder() {
  return join(cacheFolder(), `engine-source-${engineVersion}`);
}

/**
 * The folder with the engine's source, fetched on first use.
 *
 * @returns {Promise<string>} absolute path, with `include/llama.h` in it
 */
export async function engineSource() {
  const chosen = process.env.PLIMSOLL_ENGINE_SOURCE;
  if (chosen) {
    if (!existsSync(join(chosen, 'include', 'llama.h'))) {
      throw new StepError(
        `PLIMSOLL_ENGINE_SOURCE=${chosen} has no include/llama.h`,
        `point it at llama.cpp ${engineVersion} or unset it`,
      );
    }
    return resolve(chosen);
  }
  const cache = cacheFolder();
  const target = engineSourceFolder();
  if (isEngineSource(target)) return target;
  requireTools();
  mkdirSync(cache, { recursive: true });
  const tarball = await fetchTarball(join(cache, 'downloads'));
  await cloneBundle(tarball, cache, target);
  rmSync(tarball, { force: true });
  say(`engine source: ready in ${target}`);
  return target;
}

function requireTools() {
  for (const [program, remedy] of [
    ['git', process.platform === 'darwin' ? 'xcode-select --install' : 'apt-get install git'],
    ['tar', 'apt-get install tar'],
  ]) {
    if (spawnSync(program, ['--version']).status !== 0)
      throw new StepError(`${program} is not installed`, `install it: ${remedy}`);
  }
}

async function fetchTarball(folder) {
  mkdirSync(folder, { recursive: true });
  const name = `${packageName}-${packageVersion}.tgz`;
  const target = join(folder, name);
  if (existsSync(target)) {
    if (await hasIntegrity(target)) return target;
    rmSync(target);
  }
  say(`engine source: downloading ${packageName}@${packageVersion} with npm (35 MB)`);
  const partial = mkdtempSync(join(folder, 'partial-'));
  try {
    packInto(partial, target);
    const packed = join(partial, name);
    if (!(await hasIntegrity(packed))) {
      throw new StepError(
        `${packageName}@${packageVersion} from the npm registry is not the pinned file (its sha512 differs)`,
        'try again; if it stays so, the registry or a proxy changes it: use another one (npm config set registry)',
      );
    }
    renameSync(packed, target);
  } finally {
    rmSync(partial, { recursive: true, force: true });
  }
  return target;
}

/** npm's own settings (registry, proxy, retries) apply. Scripts are off: nothing of the package is meant to run. */
function packInto(folder, offlineCopy) {
  const args = [
    'pack',
    `${packageName}@${packageVersion}`,
    '--ignore-scripts',
    '--silent',
    '--pack-destination',
    folder,
  ];
  const result = spawnSync('npm', args, {
    cwd: folder,
    encoding: 'utf8',
    env: { ...process.env, npm_config_dry_run: 'false' },
  });
  if (result.error) throw new StepError('npm is not installed', 'it comes with Node.js');
  if (result.status === 0) return;
  const reason = /\b(E[A-Z]{3,}\w*)\b/.exec(npmReason(folder) || result.stderr)?.[1] ?? `exit ${result.status}`;
  throw new StepError(
    `${packageName}@${packageVersion} could not be downloaded from the npm registry (${reason})`,
    `check the network and \`npm config get registry\`, or put the file there yourself: ${offlineCopy}`,
  );
}

/** `npm pack --silent` hides even the error code, so npm is asked once more, cheaply, for the reason alone. */
function npmReason(folder) {
  const args = ['view', `${packageName}@${packageVersion}`, 'dist.integrity', '--fetch-retries=0', '--loglevel=error'];
  return spawnSync('npm', args, { cwd: folder, encoding: 'utf8', timeout: 60_000 }).stderr;
}

async function hasIntegrity(file) {
  const hash = createHash('sha512');
  await pipeline(createReadStream(file), hash);
  return `sha512-${hash.digest('base64')}` === packageIntegrity;
}

async function cloneBundle(tarball, cache, target) {
  say('engine source: unpacking');
  const work = mkdtempSync(join(cache, 'engine-source-partial-'));
  try {
    if ((await run('tar', ['-xzf', tarball, '-C', work, bundlePath])) !== 0) {
      throw new StepError(`${tarball} could not be unpacked`, `is the disk full? ${cache} needs 500 MB`);
    }
    const clone = join(work, 'clone');
    const code = await run('git', [
      '-c',
      'advice.detachedHead=false',
      'clone',
      '--quiet',
      join(work, bundlePath),
      clone,
    ]);
    if (code !== 0)
      throw new StepError(
        'the engine source could not be cloned from its bundle',
        `is the disk full? ${cache} needs 500 MB`,
      );
    if (!isEngineSource(clone)) throw new StepError(`the bundle does not hold commit ${engineCommit}`);
    putInPlace(clone, target);
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

/** A rename is all or nothing; a second process that was faster has put the same commit there, which is as good. */
function putInPlace(clone, target) {
  if (isEngineSource(target)) return;
  rmSync(target, { recursive: true, force: true });
  try {
    renameSync(clone, target);
  } catch (error) {
    if (!isEngineSource(target)) throw error;
  }
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  await runSteps(async () => {
    const folder = await engineSource();
    if (process.argv.includes('--print')) process.stdout.write(`${folder}\n`);
    else say(`engine source: ${folder}`);
  });
}
