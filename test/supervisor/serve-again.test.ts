import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { ServedProcess } from '../support/served-process.js';
import { requireTestModel } from '../support/test-models.js';

const ARGS = [
  '--model',
  requireTestModel('smollm2'),
  '--port',
  '0',
  '--context-length',
  '512',
  '--no-warmup',
  '--skip-probe',
];

// Three starts with a real model, also on a machine that is busy with other things.
t.setTimeout(180_000);

function serve(t: Test, cacheDir: string, args: string[] = []): ServedProcess {
  const served = new ServedProcess([...ARGS, ...args], { PLIMSOLL_CACHE_DIR: cacheDir });
  t.teardown(() => served.signalAll('SIGKILL'));
  return served;
}

async function ask(address: unknown): Promise<string> {
  const reply = await fetch(`${address}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ prompt: 'Once upon a time', max_tokens: 8, temperature: 0 }),
  });
  const { choices } = (await reply.json()) as { choices: { text: string }[] };
  return choices[0].text;
}

async function lineOf(address: unknown): Promise<unknown> {
  const reply = await fetch(`${address}/v1/load-line`);
  return ((await reply.json()) as { line: unknown }).line;
}

t.test('after a native abort the server is back, under a lower line that later starts keep', async (t) => {
  const cacheDir = t.testdir({});
  const served = serve(t, cacheDir);
  const first = await served.line(/^ready on/);
  t.strictSame(await lineOf(first.address), { fraction: 1, lowered_because: null, since: null });
  const text = await ask(first.address);

  process.kill(first.pid as number, 'SIGABRT');
  await served.line(/^the server process ended: aborted \(SIGABRT\)/, first.at);
  const second = await served.line(/^ready on/, first.at + 1);
  t.not(second.pid, first.pid);
  t.match(await lineOf(second.address), { fraction: 0.9, lowered_because: 'aborted (SIGABRT)', since: /^20/ });
  t.equal(await ask(second.address), text, 'the same answer as before');
  await served.line(/^the line is lowered: 90 %/, first.at);
  await served.line(/^ledger: above the lowered line/, first.at);
  const [file] = readdirSync(join(cacheDir, 'load-line'));
  t.match(JSON.parse(readFileSync(join(cacheDir, 'load-line', file), 'utf8')), {
    schema: 1,
    fraction: 0.9,
    because: 'aborted (SIGABRT)',
    model: 'smollm2.gguf',
  });

  served.signalAll('SIGINT');
  t.strictSame(await served.exited, [0, null], 'a Ctrl-C that reaches both processes is one request to stop');
  await served.allGone;
  t.equal(served.lines.at(-1)?.msg, 'stopped');

  const explicit = serve(t, cacheDir, ['--mem-fraction-static', '0.8']);
  const { address } = await explicit.line(/^ready on/);
  await explicit.line(/is not kept: --mem-fraction-static 0.8 is explicit/);
  t.match(await lineOf(address), { fraction: 1 });
  process.kill(explicit.pid, 'SIGTERM');
  t.strictSame(await explicit.exited, [0, null]);
  await explicit.allGone;
});

t.test('without a supervisor there is one process', async (t) => {
  const served = serve(t, t.testdir({}), ['--no-supervisor']);
  const { pid } = await served.line(/^ready on/);
  t.equal(pid, served.pid);
  process.kill(served.pid, 'SIGTERM');
  t.strictSame(await served.exited, [0, null]);
});

t.test('a server that cannot start, and a wrong command, are ends with their own codes', async (t) => {
  const missing = new ServedProcess(['--model', '/nonexistent.gguf', '--port', '0'], {});
  t.strictSame(await missing.exited, [1, null]);
  await missing.line(/there is no model file/);
  const wrong = new ServedProcess(['--prot', '1'], {});
  t.strictSame(await wrong.exited, [2, null]);
  await wrong.line(/did you mean --port/);
});
