// Builds the addon and the TypeScript. Parts whose sources did not change are skipped.
//
//   node scripts/build.mjs                 addon/build/Release/*.node and dist/
//   node scripts/build.mjs --tests         the addon, and sources, tests and benchmarks in build/
//   …                      --without-addon the TypeScript alone
//   node scripts/build.mjs --sanitize      the addon alone, with the address and undefined-behaviour sanitizers
import { chmodSync, existsSync, mkdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { contentHash, isUpToDate, writeStamp } from './build-stamp.mjs';
import { cpuBackendDefinitions } from './cpu-backend.mjs';
import { engineCommit, engineSource } from './engine-headers.mjs';
import { compilerVariables, nodeHeadersFolder, requirePrerequisites } from './prerequisites.mjs';
import { run, runSteps, StepError, say } from './steps.mjs';

process.chdir(join(dirname(fileURLToPath(import.meta.url)), '..'));

const addonOutputs = ['plimsoll_loader', 'plimsoll_addon'].map((name) => `addon/build/Release/${name}.node`);
const sanitizers = 'address,undefined';

await runSteps(async () => {
  requirePrerequisites({});
  if (!existsSync('node_modules/node-gyp') || !existsSync('node_modules/typescript')) {
    throw new StepError('the npm packages are not installed', 'run: make install');
  }
  const sanitize = process.argv.includes('--sanitize');
  if (!process.argv.includes('--without-addon')) await buildAddon(sanitize);
  if (sanitize) return;
  if (process.argv.includes('--tests')) await compile('tsconfig.test.json', 'build', ['src', 'test', 'bench'], []);
  else {
    await compile('tsconfig.json', 'dist', ['src'], ['dist/main.js']);
    chmodSync('dist/main.js', 0o755);
  }
});

async function buildAddon(sanitize) {
  // The engine is not ours to sanitize.
  const cpuBackend = sanitize ? [] : cpuBackendDefinitions();
  const hash = contentHash(
    [
      'addon/binding.gyp',
      'addon/cpu-backend.gypi',
      'addon/cpu-backend.json',
      'addon/src',
      'node_modules/node-addon-api/package.json',
      'node_modules/node-gyp/package.json',
    ],
    [
      process.version,
      process.arch,
      engineCommit,
      process.env.PLIMSOLL_ENGINE_SOURCE ?? '',
      process.env.CXX ?? '',
      `sanitize=${sanitize}`,
      ...cpuBackend,
    ],
  );
  const stamp = 'addon/build/plimsoll-stamp';
  if (isUpToDate(stamp, hash, addonOutputs)) return say('addon: up to date');
  requirePrerequisites({ compiler: true, python: true });
  const source = await engineSource();
  say(`addon: compiling${sanitize ? ` with sanitizers (${sanitizers})` : ''}`);
  rmSync(stamp, { force: true });
  mkdirSync('addon/build', { recursive: true });
  rmSync('addon/build/engine-source', { force: true });
  symlinkSync(source, 'addon/build/engine-source');
  const headers = process.env.npm_config_nodedir ?? nodeHeadersFolder();
  if (!headers) say('addon: this Node.js came without its headers; node-gyp downloads them');
  const common = ['node_modules/node-gyp/bin/node-gyp.js', '-C', 'addon', '--loglevel=warn'];
  if (headers) common.push(`--nodedir=${headers}`);
  // Two calls: what follows the double dash goes to gyp in the first, and would go to make in the second.
  const define = ['--', `-Dsanitize=${sanitize ? sanitizers : ''}`, ...cpuBackend];
  for (const step of [
    ['configure', ...define],
    ['build', '--jobs=max'],
  ]) {
    if ((await run(process.execPath, [...common, ...step], { env: nodeGypEnvironment(source) })) !== 0) {
      throw new StepError('the addon did not compile', 'the compiler’s own message is above');
    }
  }
  writeStamp(stamp, hash);
}

/** Without the variables of a make that may have started us: node-gyp starts a make of its own. */
function nodeGypEnvironment(source) {
  const { MAKEFLAGS, MFLAGS, MAKELEVEL, ...rest } = process.env;
  return { ...rest, ...compilerVariables(), PLIMSOLL_ENGINE_HEADERS: source };
}

async function compile(project, folder, sources, outputs) {
  const typescript = JSON.parse(readFileSync('node_modules/typescript/package.json', 'utf8')).version;
  const hash = contentHash([...sources, 'tsconfig.json', project], [typescript]);
  const stamp = join(folder, '.plimsoll-stamp');
  if (isUpToDate(stamp, hash, outputs)) return say(`${folder}: up to date`);
  say(`${folder}: compiling TypeScript`);
  // The compiler believes its build info, not the folder: with output missing it has to start over.
  if (!existsSync(stamp) || !outputs.every((path) => existsSync(path)))
    rmSync(join(folder, '.tsbuildinfo'), { force: true });
  rmSync(stamp, { force: true });
  const code = await run(process.execPath, ['node_modules/typescript/bin/tsc', '-p', project]);
  if (code !== 0) throw new StepError('the TypeScript did not compile', 'the messages are above');
  const missing = outputs.find((path) => !existsSync(path));
  if (missing) throw new StepError(`the compiler made no ${missing}`);
  writeStamp(stamp, hash);
}
