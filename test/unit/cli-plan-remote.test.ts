/** Plans for models that are not downloaded: their header is read from the Hub. */
import t, { type Test } from 'tap';
import { runCli } from '../../src/main/cli/run.js';
import { tinyHeader } from '../support/gguf-header.js';
import { type HubServer, startHubServer } from '../support/hub-server.js';

const REPO = 'owner/model-GGUF';

async function plan(hub: HubServer, cache: string, model = `hf:${REPO}`) {
  let stdout = '';
  let stderr = '';
  const exitCode = await runCli(
    ['plan', '--model', model, '--device', 'h200', '--json'],
    { HF_ENDPOINT: hub.endpoint, PLIMSOLL_CACHE_DIR: cache, NO_PROXY: '*' },
    { serve: async () => 0 },
    { stdout: { write: (text) => (stdout += text) }, stderr: { write: (text) => (stderr += text) } },
  );
  return { exitCode, stdout, stderr };
}

/** A header, and weights behind it that nobody should ask for. */
function file(header: Buffer, weightsBytes: number): Buffer {
  return Buffer.concat([header, Buffer.alloc(weightsBytes)]);
}

async function hubOf(t: Test, files: Record<string, Buffer>): Promise<HubServer> {
  const hub = await startHubServer(REPO, files);
  t.teardown(() => hub.close());
  return hub;
}

t.test('the head of the file is enough', async (t) => {
  const content = file(tinyHeader({ tensorElements: 4e9 }), 6 * 2 ** 20);
  const hub = await hubOf(t, { 'model-Q8_0.gguf': content });
  const { exitCode, stdout, stderr } = await plan(hub, t.testdir({}));
  t.strictSame({ exitCode, stderr }, { exitCode: 0, stderr: '' });
  t.match(JSON.parse(stdout), [{ model: `hf:${REPO}`, fits: true, weightsBytes: 8e9, contextTokens: 4096 }]);
  t.strictSame(
    hub.storageRequests().map(({ headers }) => headers.range),
    ['bytes=0-4194303'],
  );
});

t.test('a long header is asked for again, longer', async (t) => {
  const content = file(tinyHeader({ vocabularySize: 300_000 }), 8);
  const hub = await hubOf(t, { 'model-Q8_0.gguf': content });
  t.match(await plan(hub, t.testdir({})), { exitCode: 0, stderr: '' });
  t.equal(hub.storageRequests().length, 2);
});

t.test('a storage without ranges sends all of it, and the head is taken', async (t) => {
  const hub = await hubOf(t, { 'model-Q8_0.gguf': file(tinyHeader(), 6 * 2 ** 20) });
  hub.troubles.push({ kind: 'ignore-range' });
  t.match(await plan(hub, t.testdir({})), { exitCode: 0, stderr: '' });
});

t.test('the parts of a split model count by the sizes that the Hub lists', async (t) => {
  const header = tinyHeader();
  const hub = await hubOf(t, {
    'model-Q8_0-00001-of-00002.gguf': file(header, 1_000_000),
    'model-Q8_0-00002-of-00002.gguf': Buffer.alloc(3_000_000),
  });
  const { stdout } = await plan(hub, t.testdir({}));
  t.match(JSON.parse(stdout), [{ weightsBytes: 4_000_000 }]);
  t.equal(hub.storageRequests().length, 1, 'only the first is looked into');
});

t.test('what keeps it from being read is one line', async (t) => {
  const hub = await hubOf(t, { 'model-Q8_0.gguf': Buffer.from('GGUF is no header at all') });
  const cache = t.testdir({});
  const start = /^plimsoll: hf:owner\/\S+ is not downloaded, and its header cannot be read: /;
  for (const [model, reason] of [
    [`hf:${REPO}`, /GGUF version .* is not supported/],
    [`hf:${REPO}:Q2_K`, /has no Q2_K; it has Q8_0/],
    ['hf:owner/other', /owner\/other or this file of it does not exist/],
  ] as const) {
    const { exitCode, stderr } = await plan(hub, cache, model);
    t.equal(exitCode, 1);
    t.match(stderr, start);
    t.match(stderr, reason);
    t.equal(stderr.split('\n').length, 2, stderr);
  }
});
