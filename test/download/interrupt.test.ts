import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { modelBytes, startHubServer } from '../support/hub-server.js';

const CHILD = fileURLToPath(new URL('../support/pull-child.js', import.meta.url));

/** Waits for another process to have written so many bytes: its file is the only sign of it. */
async function hasBytes(path: string, bytes: number): Promise<void> {
  for (let looks = 0; looks < 1000; looks++) {
    if ((statSync(path, { throwIfNoEntry: false })?.size ?? 0) >= bytes) return;
    await sleep(10);
  }
  throw new Error(`${path} did not grow to ${bytes} bytes`);
}

for (const signal of ['SIGINT', 'SIGTERM', 'SIGKILL'] as const) {
  t.test(`pull that ${signal} ends goes on where it was`, async (t) => {
    const content = modelBytes(300_000);
    const hub = await startHubServer('o/r', { 'm.gguf': content });
    t.teardown(() => hub.close());
    const cacheDir = t.testdir();
    const env = { ...process.env, PLIMSOLL_CACHE_DIR: cacheDir, HF_ENDPOINT: hub.endpoint };
    const path = join(cacheDir, 'models', 'hub', 'o', 'r', 'm.gguf');
    const pull = async (interrupt?: () => Promise<void>) => {
      const child = spawn(process.execPath, [CHILD, 'pull', 'hf:o/r'], { env });
      let stdout = '';
      let stderr = '';
      child.stdout.on('data', (chunk) => {
        stdout += chunk;
      });
      child.stderr.on('data', (chunk) => {
        stderr += chunk;
      });
      const closed = once(child, 'close');
      await interrupt?.();
      if (interrupt) child.kill(signal);
      const [code] = await closed;
      return { code, stdout, stderr };
    };

    hub.troubles.push({ kind: 'hang', afterBytes: 123_456 });
    const first = await pull(() => hasBytes(`${path}.partial`, 123_456));
    t.equal(first.stdout, '');
    if (signal !== 'SIGKILL') {
      t.equal(first.code, 130);
      t.match(first.stderr, /\nplimsoll: stopped; a download goes on from here the next time\n$/);
    }
    const second = await pull();
    t.match(second, { code: 0, stdout: `${path}\n` });
    t.equal(hub.storageRequests()[1].headers.range, 'bytes=123456-');
    t.ok(readFileSync(path).equals(content));
  });
}
