import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { requireDiskSpace } from '../../src/main/models/disk-space.js';
import { ModelError, type ModelErrorCode } from '../../src/main/models/model-error.js';
import { type ResolveOptions, resolveModel } from '../../src/main/models/resolve-model.js';
import { IMPATIENT_LIMITS, QUICK_LIMITS } from '../support/download-limits.js';
import { modelBytes, startHubServer, type Trouble } from '../support/hub-server.js';

const CONTENT = modelBytes(100_000);

async function setUp(t: Test, troubles: Trouble[] = [], env: Record<string, string> = {}, limits = QUICK_LIMITS) {
  const hub = await startHubServer('o/r', { 'm-Q4_K_M.gguf': CONTENT });
  hub.troubles.push(...troubles);
  t.teardown(() => hub.close());
  const cacheDir = t.testdir();
  const options: ResolveOptions = { cacheDir, env: { HF_ENDPOINT: hub.endpoint, ...env }, limits };
  const folder = join(cacheDir, 'models', 'hub', 'o', 'r');
  return { hub, folder, fetch: () => resolveModel('hf:o/r', options) };
}

async function failsWith(t: Test, fetch: () => Promise<string>, code: ModelErrorCode, words: RegExp): Promise<void> {
  const error = await fetch().catch((thrown) => thrown);
  t.ok(error instanceof ModelError, `a model error: ${error}`);
  t.equal(error.code, code);
  t.match(error.message, words);
  t.notMatch(error.message, /\n/, 'one line');
}

function always(trouble: Trouble): Trouble[] {
  return Array.from({ length: 10 }, () => trouble);
}

for (const status of [429, 503]) {
  t.test(`${status} is tried again after the time that the server asks for`, async (t) => {
    const { hub, folder, fetch } = await setUp(t, [{ kind: 'status', status, headers: { 'retry-after': '3600' } }]);
    await fetch();
    const [first, second, ...more] = hub.storageRequests();
    // An hour was asked for; the bound of these tests is 150 ms. Without the header the wait would be 2 ms.
    t.ok(second.atMs - first.atMs >= QUICK_LIMITS.retryAfterMaxMs - 1);
    t.strictSame(more, []);
    t.ok(await stat(join(folder, 'm-Q4_K_M.gguf')));
  });
}

t.test('a server that fails for ever is given up, in one line', async (t) => {
  const { hub, fetch } = await setUp(t, always({ kind: 'status', status: 503 }));
  await failsWith(t, fetch, 'unreachable', /m-Q4_K_M\.gguf could not be downloaded: the server answers 503/);
  t.equal(hub.storageRequests().length, QUICK_LIMITS.attempts);
});

t.test('a transfer that stands still is given up', async (t) => {
  const { fetch } = await setUp(t, always({ kind: 'hang', afterBytes: 0 }), {}, IMPATIENT_LIMITS);
  await failsWith(t, fetch, 'unreachable', /the transfer stood still/);
});

t.test('a transfer that trickles counts as standing still, and the next try goes on', async (t) => {
  const { hub, folder, fetch } = await setUp(t, [{ kind: 'trickle' }], {}, IMPATIENT_LIMITS);
  await fetch();
  t.equal(hub.storageRequests().length, 2);
  t.match(hub.storageRequests()[1].headers.range, /^bytes=[1-9]\d*-$/, 'even the trickled bytes are kept');
  t.ok(await stat(join(folder, 'm-Q4_K_M.gguf')));
});

t.test('a wrong checksum, twice, leaves nothing behind that looks like a model', async (t) => {
  const wrong: Trouble = { kind: 'other-content', content: modelBytes(CONTENT.length, 9), etag: '"w"' };
  const { hub, folder, fetch } = await setUp(t, always(wrong));
  await failsWith(t, fetch, 'checksum', /m-Q4_K_M\.gguf has the wrong checksum/);
  t.equal(hub.storageRequests().length, 2);
  t.strictSame(await readdir(folder), []);
});

t.test('a wrong checksum once is cured by a second download', async (t) => {
  const wrong: Trouble = { kind: 'other-content', content: modelBytes(CONTENT.length, 9), etag: '"w"' };
  const { folder, fetch } = await setUp(t, [wrong]);
  await fetch();
  t.ok(await stat(join(folder, 'm-Q4_K_M.gguf')));
});

t.test('a repository that does not exist', async (t) => {
  const { hub, fetch } = await setUp(t);
  hub.hubStatus = 404;
  await failsWith(t, fetch, 'not_found', /^o\/r or this file of it does not exist/);
});

t.test('a gated repository without a token says what to do', async (t) => {
  const { hub, fetch } = await setUp(t);
  hub.hubStatus = 401;
  await failsWith(t, fetch, 'unauthorized', /check the name, ask for access .* and set HF_TOKEN/);
});

t.test('a gated repository with a token that may not read it', async (t) => {
  const { hub, fetch } = await setUp(t, [], { HF_TOKEN: 'secret' });
  hub.hubStatus = 403;
  await failsWith(t, fetch, 'unauthorized', /HF_TOKEN may not read it/);
});

t.test('a file that is gone from the storage is not tried again', async (t) => {
  const { hub, fetch } = await setUp(t, [{ kind: 'status', status: 404 }]);
  await failsWith(t, fetch, 'not_found', /does not exist/);
  t.equal(hub.storageRequests().length, 1);
});

t.test('no network at all', async (t) => {
  const { hub, fetch } = await setUp(t);
  await hub.close();
  await failsWith(t, fetch, 'unreachable', /127\.0\.0\.1:\d+ cannot be reached \(ECONNREFUSED\)/);
});

t.test('PLIMSOLL_OFFLINE asks nobody', async (t) => {
  const { hub, fetch } = await setUp(t, [], { PLIMSOLL_OFFLINE: '1' });
  await failsWith(t, fetch, 'offline', /hf:o\/r is not in .* PLIMSOLL_OFFLINE forbids/);
  t.equal(hub.seen.length, 0);
});

t.test('an answer that is no file list', async (t) => {
  const { hub, fetch } = await setUp(t);
  hub.listText = '<html>Welcome to the airport</html>';
  await failsWith(t, fetch, 'unreachable', /does not answer like a Hub/);
});

t.test('a disk that is too small is found before the download', async (t) => {
  const error = await requireDiskSpace(t.testdir(), 1e18).catch((thrown) => thrown);
  t.equal(error.code, 'no_space');
  t.match(error.message, /1000000\.0 TB and a margin of 268\.4 MB are needed, .* are free \(PLIMSOLL_CACHE_DIR/);
});
