import { readFileSync } from 'node:fs';
import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { downloadFile } from '../../src/main/models/download.js';
import { HttpClient } from '../../src/main/models/http-client.js';
import { ModelError } from '../../src/main/models/model-error.js';
import { QUICK_LIMITS } from '../support/download-limits.js';
import { type HubServer, modelBytes, sha256, startHubServer, type Trouble } from '../support/hub-server.js';

const CONTENT = modelBytes(300_000);

interface Setup {
  hub: HubServer;
  path: string;
  fetch: (options?: {
    sha256?: string | null;
    sizeBytes?: number | null;
    signal?: AbortSignal;
    onBytes?: (bytes: number) => void;
  }) => Promise<void>;
}

async function setUp(t: Test, troubles: Trouble[]): Promise<Setup> {
  const hub = await startHubServer('o/r', { 'm.gguf': CONTENT });
  hub.troubles.push(...troubles);
  const client = new HttpClient();
  t.teardown(async () => {
    await client.close();
    await hub.close();
  });
  const path = join(t.testdir(), 'm.gguf');
  return {
    hub,
    path,
    fetch: (options = {}) =>
      downloadFile({
        url: `${hub.endpoint}/o/r/resolve/main/m.gguf`,
        headers: {},
        path,
        sha256: options.sha256 === undefined ? sha256(CONTENT) : options.sha256,
        sizeBytes: options.sizeBytes === undefined ? CONTENT.length : options.sizeBytes,
        client,
        limits: QUICK_LIMITS,
        refusal: () => null,
        onProgress: (progress) => {
          if (progress.kind !== 'bytes') return;
          hub.clientHas(progress.receivedBytes);
          options.onBytes?.(progress.receivedBytes);
        },
        signal: options.signal,
      }),
  };
}

async function isWhole(t: Test, path: string): Promise<void> {
  t.ok((await readFile(path)).equals(CONTENT), 'the file is the right one, to the byte');
  await t.rejects(stat(`${path}.partial`), 'no partial file is left');
  await t.rejects(stat(`${path}.partial.json`), 'no state is left');
}

/** Where each request began; 0 where it asked for no range. */
function rangeStarts(hub: HubServer): number[] {
  return hub.storageRequests().map(({ headers }) => Number(/^bytes=(\d+)-$/.exec(headers.range ?? '')?.[1] ?? 0));
}

t.test('a connection that breaks in mid-file is resumed where it broke', async (t) => {
  const { hub, path, fetch } = await setUp(t, [
    { kind: 'break', afterBytes: 100_000 },
    { kind: 'break', afterBytes: 50_000 },
  ]);
  await fetch();
  t.strictSame(rangeStarts(hub), [0, 100_000, 150_000]);
  t.match(hub.storageRequests()[1].headers['if-range'], /^"\w+"$/, 'and only if it is still the same file');
  await isWhole(t, path);
});

t.test('a body that ends too early by its own length is resumed', async (t) => {
  const { hub, path, fetch } = await setUp(t, [{ kind: 'truncate', toBytes: 70_000 }]);
  await fetch();
  t.strictSame(rangeStarts(hub), [0, 70_000]);
  await isWhole(t, path);
});

t.test('a server that knows no ranges sends it all again', async (t) => {
  const { hub, path, fetch } = await setUp(t, [{ kind: 'break', afterBytes: 100_000 }, { kind: 'ignore-range' }]);
  await fetch();
  t.strictSame(rangeStarts(hub), [0, 100_000]);
  await isWhole(t, path);
});

t.test('a file that changed meanwhile is taken from its first byte', async (t) => {
  const old = modelBytes(CONTENT.length, 2);
  const { hub, path, fetch } = await setUp(t, [
    { kind: 'other-content', content: old, etag: '"old"', breakAfterBytes: 100_000 },
  ]);
  await fetch();
  t.equal(hub.storageRequests()[1].headers['if-range'], '"old"');
  await isWhole(t, path);
});

t.test('a part that was not asked for is not taken, even where no checksum would tell', async (t) => {
  const { hub, path, fetch } = await setUp(t, [{ kind: 'break', afterBytes: 100_000 }, { kind: 'wrong-part' }]);
  await fetch({ sha256: null });
  t.strictSame(rangeStarts(hub), [0, 100_000, 0]);
  await isWhole(t, path);
});

t.test('416 begins anew', async (t) => {
  const { hub, path, fetch } = await setUp(t, [
    { kind: 'break', afterBytes: 100_000 },
    { kind: 'status', status: 416 },
  ]);
  await fetch();
  t.strictSame(rangeStarts(hub), [0, 100_000, 0]);
  await isWhole(t, path);
});

t.test('bytes that a crash spoilt cost one more download, not the model', async (t) => {
  const { hub, path, fetch } = await setUp(t, [
    {
      kind: 'other-content',
      content: modelBytes(CONTENT.length, 3),
      etag: `"${sha256(CONTENT).slice(0, 16)}"`,
      breakAfterBytes: 90_000,
    },
  ]);
  await fetch();
  t.strictSame(rangeStarts(hub), [0, 90_000, 0], 'resumed, found wrong, fetched whole');
  await isWhole(t, path);
});

t.test('without size and checksum the length that the server names counts', async (t) => {
  const { path, fetch } = await setUp(t, [{ kind: 'break', afterBytes: 10_000 }]);
  await fetch({ sha256: null, sizeBytes: null });
  await isWhole(t, path);
});

t.test('cancelling keeps what is here, and the next call goes on from there', async (t) => {
  const { hub, path, fetch } = await setUp(t, [{ kind: 'hang', afterBytes: 120_000 }]);
  const stop = new AbortController();
  const onBytes = (bytes: number) => bytes === 120_000 && stop.abort();
  const error = await fetch({ signal: stop.signal, onBytes }).catch((thrown) => thrown);
  t.ok(error instanceof ModelError && error.code === 'cancelled');
  t.equal(readFileSync(`${path}.partial`).length, 120_000);
  const seenBytes: number[] = [];
  await fetch({ onBytes: (bytes) => seenBytes.push(bytes) });
  t.equal(seenBytes[0], 120_000, 'progress begins with what was here');
  t.strictSame(rangeStarts(hub), [0, 120_000]);
  await isWhole(t, path);
});

t.test('a partial file of another content is not resumed', async (t) => {
  const { hub, path, fetch } = await setUp(t, [{ kind: 'hang', afterBytes: 120_000 }]);
  const stop = new AbortController();
  await fetch({
    signal: stop.signal,
    sha256: 'f'.repeat(64),
    onBytes: (bytes) => bytes === 120_000 && stop.abort(),
  }).catch(() => {});
  await fetch();
  t.strictSame(rangeStarts(hub), [0, 0]);
  await isWhole(t, path);
});
