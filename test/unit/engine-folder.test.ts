import { mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import t from 'tap';
import { findEngineFolder, readEngineFolder } from '../../src/shared/engine-folder.js';

function folder(files: string[], links: Record<string, string> = {}): string {
  const path = realpathSync(mkdtempSync(join(tmpdir(), 'plimsoll-engine-')));
  t.teardown(() => rmSync(path, { recursive: true }));
  for (const file of files) writeFileSync(join(path, file), '');
  for (const [link, target] of Object.entries(links)) symlinkSync(target, join(path, link));
  return path;
}

const namesOf = (paths: string[]) => paths.map((path) => basename(path));

t.test('the npm package for CPUs: a version in the names, backends as modules', async (t) => {
  const path = folder([
    'libggml-base.so',
    'libggml.v0.4.0.so',
    'libllama.v0.4.0.so',
    'libllama-common.so',
    'libggml-cpu-haswell.so',
    'libggml-cpu-x64.so',
    'llama-addon.node',
  ]);
  const engine = readEngineFolder(path);
  t.same(namesOf(engine.libraries), [
    'libggml-base.so',
    'libggml.v0.4.0.so',
    'libllama.v0.4.0.so',
    'libllama-common.so',
  ]);
  t.same(engine.linkedBackends, []);
  t.equal(engine.backendPath, path);
});

t.test('the npm packages for GPUs: the backend in the names too', async (t) => {
  const cuda = readEngineFolder(
    folder([
      'libggml-base.so',
      'libggml.cuda.v0.4.0.so',
      'libllama.cuda.v0.4.0.so',
      'libllama-common.so',
      'libggml-cuda.so',
      'libggml-cpu-x64.so',
    ]),
  );
  t.same(namesOf(cuda.libraries), [
    'libggml-base.so',
    'libggml.cuda.v0.4.0.so',
    'libllama.cuda.v0.4.0.so',
    'libllama-common.so',
  ]);
  t.equal(cuda.backendPath, cuda.path);
  const metal = readEngineFolder(
    folder([
      'libggml-base.dylib',
      'libggml.metal.v0.4.0.dylib',
      'libllama.metal.v0.4.0.dylib',
      'libllama-common.dylib',
      'libggml-metal.so',
      'libggml-blas.so',
    ]),
  );
  t.same(namesOf(metal.libraries), [
    'libggml-base.dylib',
    'libggml.metal.v0.4.0.dylib',
    'libllama.metal.v0.4.0.dylib',
    'libllama-common.dylib',
  ]);
  t.equal(metal.backendPath, metal.path);
});

t.test('a build from source: links to versioned files, backends linked in', async (t) => {
  const roles = ['ggml-base', 'ggml', 'ggml-cpu', 'ggml-cuda', 'llama', 'llama-common'];
  const links = Object.fromEntries(
    roles.flatMap((role) => [
      [`lib${role}.so`, `lib${role}.so.0`],
      [`lib${role}.so.0`, `lib${role}.so.0.4.0`],
    ]),
  );
  const engine = readEngineFolder(
    folder(
      roles.map((role) => `lib${role}.so.0.4.0`),
      links,
    ),
  );
  t.same(namesOf(engine.libraries), [
    'libggml-base.so.0.4.0',
    'libggml.so.0.4.0',
    'libllama.so.0.4.0',
    'libllama-common.so.0.4.0',
  ]);
  t.same(namesOf(engine.linkedBackends), ['libggml-cpu.so.0', 'libggml-cuda.so.0']);
  t.equal(engine.backendPath, '', 'a linked backend is not loaded a second time');
});

t.test('what is missing is named', async (t) => {
  t.throws(() => readEngineFolder('/no/such/folder'), {
    code: 'engine_not_found',
    message: /no folder \/no\/such\/folder/,
  });
  t.throws(() => readEngineFolder(folder(['libggml-base.so', 'libggml.so', 'libllama.so'])), {
    code: 'engine_not_found',
    message: /libllama-common/,
  });
  t.throws(() => findEngineFolder({ PLIMSOLL_ENGINE_DIR: '/no/such/folder' }), { code: 'engine_not_found' });
});

t.test('without a setting, this platform has its package', async (t) => {
  t.match(findEngineFolder({}).path, /@node-llama-cpp/);
});
