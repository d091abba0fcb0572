import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { cpuBackendFor } from '../../src/shared/cpu-backend.js';

const root = mkdtempSync(join(tmpdir(), 'plimsoll-cpu-backend-'));
t.teardown(() => rmSync(root, { recursive: true }));
const addonFolder = join(root, 'addon/build/Release');
const packageFolder = join(root, 'package');
mkdirSync(addonFolder, { recursive: true });
mkdirSync(packageFolder);
writeFileSync(join(root, 'addon/cpu-backend.json'), '{"avx512f":"-mavx512f","avx512_fp16":"-mavx512fp16"}');
const fp16 = join(addonFolder, 'ggml-cpu-fp16.so');
const tuned = join(addonFolder, 'ggml-cpu-tuned.so');
for (const library of [fp16, tuned]) writeFileSync(library, '');
for (const name of ['libggml-base.so', 'libggml-cpu-x64.so', 'libggml-cpu-zen4.so'])
  writeFileSync(join(packageFolder, name), '');

const engine = { path: packageFolder, libraries: [], linkedBackends: [], backendPath: packageFolder };
const instructions = new Set(['fpu', 'avx512f', 'avx512_fp16']);
const question = { engine, addonFolder, headLengths: [128, 128], instructions };

t.test('heads that fill the backend’s steps are computed with 16-bit arithmetic', async (t) => {
  t.equal(cpuBackendFor(question), fp16);
  t.equal(cpuBackendFor({ ...question, headLengths: [256, 128] }), fp16);
});

t.test('others are computed in 32 bits', async (t) => {
  for (const headLengths of [[64, 64], [192, 128], [128, 64], [0, 0], null])
    t.equal(cpuBackendFor({ ...question, headLengths }), tuned, JSON.stringify(headLengths));
});

t.test('a processor without one of its instructions, or with something better, does not get it', async (t) => {
  t.equal(cpuBackendFor({ ...question, instructions: new Set(['avx512f']) }), null);
  t.equal(cpuBackendFor({ ...question, instructions: new Set() }), null);
  t.equal(cpuBackendFor({ ...question, instructions: new Set([...instructions, 'amx_tile']) }), null);
});

t.test('an engine that brings backends of another kind, or has its own linked in, is left alone', async (t) => {
  t.equal(cpuBackendFor({ ...question, engine: { ...engine, backendPath: '' } }), null);
  writeFileSync(join(packageFolder, 'libggml-cuda.so'), '');
  t.equal(cpuBackendFor(question), null);
});

t.test('a build without it', async (t) => {
  rmSync(join(packageFolder, 'libggml-cuda.so'), { force: true });
  for (const library of [fp16, tuned]) rmSync(library);
  t.equal(cpuBackendFor(question), null);
});
