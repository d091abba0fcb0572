// Builds the pinned engine version from its source, into the cache folder.
//
//   node scripts/build-engine.mjs engine   libraries for this very machine, with RPC, and CUDA when nvcc is there
//   node scripts/build-engine.mjs peer     llama-server, llama-bench and llama-batched-bench, to measure against
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readlinkSync,
  renameSync,
  rmSync,
  symlinkSync,
} from 'node:fs';
import { availableParallelism, totalmem } from 'node:os';
import { join } from 'node:path';
import { contentHash, isUpToDate, writeStamp } from './build-stamp.mjs';
import { cacheFolder } from './cache-folder.mjs';
import { engineCommit, engineSource, engineVersion } from './engine-headers.mjs';
import { compilerVariables, requirePrerequisites } from './prerequisites.mjs';
import { firstLine, run, runSteps, StepError, say } from './steps.mjs';

const programs = ['llama-server', 'llama-bench', 'llama-batched-bench'];
const isMac = process.platform === 'darwin';
const hasCuda = !isMac && firstLine('nvcc', ['--version']) !== undefined;

// The run path is relative, so that the folder can be moved or copied to another machine of the same kind. Nothing is fetched
// while it builds: no web page for the server, no TLS library.
const commonFlags = [
  '-DCMAKE_BUILD_TYPE=Release',
  '-DBUILD_SHARED_LIBS=ON',
  '-DCMAKE_BUILD_WITH_INSTALL_RPATH=ON',
  `-DCMAKE_INSTALL_RPATH=${isMac ? '@loader_path' : '$ORIGIN'}`,
  '-DGGML_NATIVE=ON',
  '-DGGML_RPC=ON',
  `-DGGML_CUDA=${hasCuda ? 'ON' : 'OFF'}`,
  '-DLLAMA_BUILD_TESTS=OFF',
  '-DLLAMA_BUILD_EXAMPLES=OFF',
  '-DLLAMA_BUILD_APP=OFF',
  '-DLLAMA_BUILD_UI=OFF',
  '-DLLAMA_USE_PREBUILT_UI=OFF',
  '-DLLAMA_OPENSSL=OFF',
];

const products = {
  engine: {
    folder: `engine-native-${engineVersion}`,
    flags: ['-DLLAMA_BUILD_TOOLS=OFF', '-DLLAMA_BUILD_SERVER=OFF'],
    targets: ['llama', 'llama-common'],
    outputs: [isMac ? 'libllama.dylib' : 'libllama.so', isMac ? 'libllama-common.dylib' : 'libllama-common.so'],
    usage: (folder) => `use it with: PLIMSOLL_ENGINE_DIR=${folder} make serve`,
  },
  peer: {
    folder: `peer-${engineVersion}`,
    flags: ['-DLLAMA_BUILD_TOOLS=ON', '-DLLAMA_BUILD_SERVER=ON'],
    targets: programs,
    outputs: programs,
    usage: (folder) => `bench/serve finds it there; PLIMSOLL_PEER_DIR names another folder than ${folder}`,
  },
};

await runSteps(async () => {
  const product = products[process.argv[2]];
  if (!product) throw new StepError('say what to build', `one of ${Object.keys(products).join(', ')}`);
  const target = join(cacheFolder(), product.folder);
  const flags = [...commonFlags, ...product.flags];
  const hash = contentHash([], [engineCommit, ...flags]);
  const stamp = join(target, 'plimsoll-stamp');
  if (
    !isUpToDate(
      stamp,
      hash,
      product.outputs.map((name) => join(target, name)),
    )
  ) {
    await build(product, flags, target);
    writeStamp(stamp, hash);
  }
  say(`${process.argv[2]}: ${target}`);
  say(product.usage(target));
});

async function build(product, flags, target) {
  requirePrerequisites({ compiler: true, cmake: true });
  const source = await engineSource();
  // Kept until it succeeds, so that an interrupted build goes on where it was.
  const work = `${target}-build`;
  say(
    `building ${product.targets.join(', ')} of llama.cpp ${engineVersion}${hasCuda ? ' with CUDA' : ''}: some 7 minutes on 2 cores`,
  );
  const { MAKEFLAGS, MFLAGS, MAKELEVEL, ...rest } = process.env;
  const env = { ...rest, ...compilerVariables() };
  await cmake(['-S', source, '-B', work, ...flags], env);
  await cmake(['--build', work, '--parallel', String(buildJobs()), '--target', ...product.targets], env);
  putInPlace(join(work, 'bin'), target);
  rmSync(work, { recursive: true, force: true });
}

async function cmake(args, env) {
  if ((await run('cmake', args, { env })) !== 0) {
    throw new StepError(
      'the engine did not build',
      'the compiler’s own message is above; run the same command again to go on',
    );
  }
}

/** Chosen: room for the largest CUDA file in each job. A machine that swaps while it compiles takes hours. */
function buildJobs() {
  const bytesPerJob = 2 * 1024 ** 3;
  return Math.max(1, Math.min(availableParallelism(), Math.floor(totalmem() / bytesPerJob)));
}

/** Libraries with their version links and programs, moved into place whole: a server that runs from the old folder keeps its files. */
function putInPlace(folder, target) {
  const partial = `${target}-partial`;
  rmSync(partial, { recursive: true, force: true });
  mkdirSync(partial, { recursive: true });
  const entries = readdirSync(folder, { withFileTypes: true }).filter(
    (entry) => entry.isFile() || entry.isSymbolicLink(),
  );
  for (const { name } of entries.filter((entry) => entry.isFile()))
    copyFileSync(join(folder, name), join(partial, name));
  for (const { name } of entries.filter((entry) => entry.isSymbolicLink()))
    symlinkSync(readlinkSync(join(folder, name)), join(partial, name));
  if (existsSync(target)) rmSync(target, { recursive: true });
  renameSync(partial, target);
}
