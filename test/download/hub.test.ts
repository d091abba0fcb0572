import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { HttpClient } from '../../src/main/models/http-client.js';
import { Hub } from '../../src/main/models/hub.js';
import { chooseHubFiles, quantOf } from '../../src/main/models/hub-choice.js';
import { type ResolveOptions, resolveModel } from '../../src/main/models/resolve-model.js';
import { QUICK_LIMITS } from '../support/download-limits.js';
import { modelBytes, startHubServer } from '../support/hub-server.js';

const MODEL = modelBytes(50_000);

async function setUp(t: Test, files: Record<string, Buffer>, env: Record<string, string> = {}) {
  const hub = await startHubServer('o/r', files);
  t.teardown(() => hub.close());
  const cacheDir = t.testdir();
  const options: ResolveOptions = { cacheDir, env: { HF_ENDPOINT: hub.endpoint, ...env }, limits: QUICK_LIMITS };
  return { hub, cacheDir, options, folder: join(cacheDir, 'models', 'hub', 'o', 'r') };
}

t.test('the token goes to the Hub and never to the storage it redirects to', async (t) => {
  const { hub, options } = await setUp(t, { 'm.gguf': MODEL }, { HF_TOKEN: 'secret' });
  await resolveModel('hf:o/r', options);
  t.ok(hub.seen.some(({ server }) => server === 'storage'));
  for (const { server, headers } of hub.seen)
    t.equal(headers.authorization, server === 'hub' ? 'Bearer secret' : undefined);
});

t.test('the second start asks nobody; a refresh asks, and takes a new file under the old name', async (t) => {
  const { hub, options, folder } = await setUp(t, { 'm.gguf': MODEL });
  const path = await resolveModel('hf:o/r', options);
  t.equal(path, join(folder, 'm.gguf'));
  hub.seen.length = 0;
  t.equal(await resolveModel('hf:o/r', options), path);
  t.equal(hub.seen.length, 0);

  t.equal(await resolveModel('hf:o/r', { ...options, refresh: true }), path);
  t.strictSame([hub.seen.length, hub.storageRequests().length], [1, 0], 'only the list, while the file is the same');
  const newer = modelBytes(MODEL.length, 2);
  hub.files.set('m.gguf', newer);
  await resolveModel('hf:o/r', { ...options, refresh: true });
  t.ok((await readFile(path)).equals(newer));
});

t.test('a known model starts without network', async (t) => {
  const { hub, options } = await setUp(t, { 'm.gguf': MODEL });
  const path = await resolveModel('hf:o/r', options);
  await hub.close();
  t.equal(
    await resolveModel('hf:o/r', { ...options, env: { ...options.env, PLIMSOLL_OFFLINE: '1' }, refresh: true }),
    path,
  );
});

t.test('all parts of a split model come, and the first is the path', async (t) => {
  const parts = [1, 2, 3].map((i) => [`Q8_0/m-Q8_0-0000${i}-of-00003.gguf`, modelBytes(20_000, i)] as const);
  const { options, folder } = await setUp(t, Object.fromEntries([...parts, ['m-Q4_0.gguf', MODEL]]));
  t.equal(await resolveModel('hf:o/r:q8_0', options), join(folder, parts[0][0]));
  for (const [name, content] of parts) t.ok((await readFile(join(folder, name))).equals(content));
});

t.test('a file list of several pages is read to its end', async (t) => {
  const { hub } = await setUp(t, Object.fromEntries(Array.from({ length: 25 }, (_, i) => [`f${i}`, Buffer.from('x')])));
  hub.pageSize = 10;
  const client = new HttpClient();
  t.teardown(() => client.close());
  t.equal((await new Hub(client, { HF_ENDPOINT: hub.endpoint }).listFiles('o/r', 'main')).length, 25);
  t.equal(hub.seen.length, 3);
});

t.test('names that would lead out of the cache folder are not taken', async (t) => {
  const { hub, options, cacheDir } = await setUp(t, { '../../../../evil.gguf': MODEL });
  await t.rejects(resolveModel('hf:o/r', options), /has no GGUF model file/);
  await t.rejects(stat(join(cacheDir, 'evil.gguf')));
  t.equal(hub.storageRequests().length, 0);
});

const file = (path: string) => ({ path, sizeBytes: 1, sha256: null });
const chosen = (paths: string[], quant: string | null) =>
  chooseHubFiles(paths.map(file), 'o/r', quant).map(({ path }) => path);

t.test('which file is meant', async (t) => {
  const many = ['m-Q2_K.gguf', 'm-Q8_0.gguf', 'm-Q4_K_M.gguf', 'm-Q4_0.gguf', 'm-BF16.gguf', 'README.md'];
  t.strictSame(chosen(many, null), ['m-Q4_K_M.gguf'], 'the usual one without a wish');
  t.strictSame(
    chosen(
      many.filter((path) => !path.includes('Q4_K_M')),
      null,
    ),
    ['m-Q4_0.gguf'],
    'then the next',
  );
  t.strictSame(chosen(['m.gguf', 'README.md'], null), ['m.gguf'], 'a file that names no quantization');
  t.strictSame(chosen(many, 'q8_0'), ['m-Q8_0.gguf'], 'case does not matter');
  t.strictSame(chosen(['m-Q4_K_S.gguf', 'm-Q2_K.gguf'], 'Q4_K'), ['m-Q4_K_S.gguf'], 'a family finds its member');
  t.strictSame(
    chosen(['mmproj-m-Q4_K_M.gguf', 'm-Q8_0.gguf', 'imatrix.gguf'], null),
    ['m-Q8_0.gguf'],
    'a projector is no model',
  );
  t.strictSame(
    chosen(['m-Q8_0-00002-of-00002.gguf', 'm-Q8_0-00001-of-00002.gguf'], 'Q8_0').length,
    2,
    'parts, in order',
  );
});

t.test('what there is not is answered with what there is', async (t) => {
  t.throws(() => chosen(['m-Q4_K_M.gguf', 'm-Q8_0.gguf'], 'Q5_0'), /o\/r on the Hub has no Q5_0; it has Q4_K_M, Q8_0/);
  t.throws(() => chosen(['mmproj-Q8_0.gguf', 'model.safetensors'], null), /has no GGUF model file/);
  t.throws(() => chosen(['m-Q8_0-00001-of-00003.gguf', 'm-Q8_0-00003-of-00003.gguf'], null), /has 2 of the 3 parts/);
});

t.test('quantizations in names', async (t) => {
  for (const [path, quant] of [
    ['SmolLM2-135M-Instruct.Q4_1.gguf', 'Q4_1'],
    ['Qwen3-4B-UD-Q4_K_XL.gguf', 'UD-Q4_K_XL'],
    ['gpt-oss-20b-mxfp4.gguf', 'MXFP4'],
    ['BF16/Qwen3-30B-A3B-BF16-00001-of-00002.gguf', 'BF16'],
    ['model-iq4_xs.gguf', 'IQ4_XS'],
    ['UD-Q2_K_XL/part-00001-of-00002.gguf', 'UD-Q2_K_XL'],
    ['plain.gguf', null],
  ] as const) {
    t.equal(quantOf(path), quant, path);
  }
});
