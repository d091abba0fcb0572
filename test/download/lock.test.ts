import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync, utimesSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { lockFile } from '../../src/main/models/file-lock.js';
import { modelBytes, startHubServer } from '../support/hub-server.js';

const CHILD = fileURLToPath(new URL('../support/resolve-child.js', import.meta.url));

/** A process id that was in use and is not any more. */
async function deadPid(): Promise<number> {
  const child = spawn(process.execPath, ['-e', '']);
  await once(child, 'exit');
  return child.pid ?? 0;
}

const path = (t: Test) => join(t.testdir(), 'm.gguf');

t.test('the second waits for the first', async (t) => {
  const file = path(t);
  const first = await lockFile(file);
  const order: string[] = [];
  let told: (pid: number) => void = () => {};
  const waits = new Promise<number>((resolve) => {
    told = resolve;
  });
  const second = lockFile(file, undefined, told).then((lock) => {
    order.push('second');
    return lock;
  });
  t.equal(await waits, process.pid, 'and says for whom');
  order.push('first done');
  await first.release();
  await (await second).release();
  t.strictSame(order, ['first done', 'second']);
  t.notOk(existsSync(`${file}.lock`));
});

t.test('a wait can be cancelled', async (t) => {
  const file = path(t);
  const first = await lockFile(file);
  const stop = new AbortController();
  await t.rejects(
    lockFile(file, stop.signal, () => stop.abort()),
    { code: 'cancelled' },
  );
  await first.release();
});

t.test('a lock that an earlier process of the same number left, as in a container, is taken over', async (t) => {
  const file = path(t);
  writeFileSync(`${file}.lock`, JSON.stringify({ pid: process.pid, host: hostname(), nonce: 1 }));
  const lock = await lockFile(file);
  await lock.release();
  t.strictSame(readdirSync(t.testdirName), []);
});

t.test('the lock of a process that died is taken over', async (t) => {
  const file = path(t);
  writeFileSync(`${file}.lock`, JSON.stringify({ pid: await deadPid(), host: hostname(), nonce: 1 }));
  const lock = await lockFile(file);
  t.equal(JSON.parse(readFileSync(`${file}.lock`, 'utf8')).pid, process.pid);
  await lock.release();
  t.strictSame(readdirSync(t.testdirName), []);
});

t.test(
  'the lock of another machine, or of a process id that is in use again, is taken over when it is not renewed',
  async (t) => {
    const file = path(t);
    writeFileSync(`${file}.lock`, JSON.stringify({ pid: process.pid, host: 'elsewhere', nonce: 1 }));
    const old = new Date(Date.now() - 120_000);
    utimesSync(`${file}.lock`, old, old);
    await (await lockFile(file)).release();
    t.pass();
  },
);

t.test('a lock that nobody can read is taken over when it is old', async (t) => {
  const file = path(t);
  writeFileSync(`${file}.lock`, '{"pid":');
  const old = new Date(Date.now() - 120_000);
  utimesSync(`${file}.lock`, old, old);
  await (await lockFile(file)).release();
  t.pass();
});

t.test('of ten that find the same stale lock, one at a time gets it', async (t) => {
  const file = path(t);
  writeFileSync(`${file}.lock`, JSON.stringify({ pid: await deadPid(), host: hostname(), nonce: 1 }));
  let holders = 0;
  let most = 0;
  await Promise.all(
    Array.from({ length: 10 }, async () => {
      const lock = await lockFile(file);
      most = Math.max(most, ++holders);
      await new Promise((resolve) => setImmediate(resolve));
      holders--;
      await lock.release();
    }),
  );
  t.equal(most, 1);
});

t.test('two processes that want the same model download it once', async (t) => {
  const content = modelBytes(400_000);
  const hub = await startHubServer('o/r', { 'm.gguf': content });
  t.teardown(() => hub.close());
  const cacheDir = t.testdir();
  const results = await Promise.all(
    [1, 2].map(async () => {
      const child = spawn(process.execPath, [CHILD, cacheDir, hub.endpoint, 'hf:o/r']);
      let path = '';
      child.stdout.on('data', (chunk) => {
        path += chunk;
      });
      const [code] = await once(child, 'close');
      return { code, path };
    }),
  );
  const expected = join(cacheDir, 'models', 'hub', 'o', 'r', 'm.gguf');
  t.strictSame(results, [
    { code: 0, path: expected },
    { code: 0, path: expected },
  ]);
  t.ok(readFileSync(expected).equals(content));
  t.equal(hub.storageRequests().length, 1);
});
