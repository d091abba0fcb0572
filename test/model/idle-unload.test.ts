/** A real model, unloaded when idle: its memory goes back to the system, and the next request gets the same answer. */
import { readFileSync } from 'node:fs';
import t from 'tap';
import { ServedProcess } from '../support/served-process.js';
import { requireTestModel, type TestModelName } from '../support/test-models.js';

t.setTimeout(300_000);

/** Memory of a process, bytes. */
function residentBytes(pid: number): number {
  const line = /VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'));
  return Number(line?.[1]) * 1024;
}

async function serve(name: TestModelName, cacheDir: string) {
  const flags = ['--port', '0', '--threads', '1', '--context-length', '1024', '--max-running-requests', '4'];
  const idle = ['--idle-release', '1', '--idle-unload', '3'];
  const served = new ServedProcess(['--model', requireTestModel(name), ...flags, ...idle], {
    PLIMSOLL_CACHE_DIR: cacheDir,
  });
  const ready = await served.line(/^ready on/);
  return { served, address: ready.address as string, serverPid: ready.pid as number };
}

async function answer(address: string): Promise<string> {
  const reply = await fetch(`${address}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      messages: [{ role: 'user', content: 'What is the capital of France?' }],
      temperature: 0,
      max_tokens: 24,
    }),
  });
  const body = (await reply.json()) as { choices: Array<{ message: { content: string } }> };
  return body.choices[0].message.content;
}

async function loadLine(address: string): Promise<{ residence: string; device: { weightsBytes: number } }> {
  return (await (await fetch(`${address}/v1/load-line`)).json()) as Awaited<ReturnType<typeof loadLine>>;
}

const skip = process.platform === 'linux' ? false : 'resident memory is read from /proc';

// One of them stays mapped from its file, of the other most is laid out anew in the process's memory.
for (const name of ['smollm2', 'smollm2-q4_0'] as const) {
  t.test(`${name} leaves memory when idle, and answers as before`, { skip }, async (t) => {
    const { served, address, serverPid } = await serve(name, t.testdir({}));
    t.teardown(async () => {
      served.signalAll('SIGKILL');
      await served.allGone;
    });
    const before = await answer(address);
    t.ok(before.length > 20);
    // The context is put away first, so that what goes later is the weights.
    let line = await loadLine(address);
    while (line.residence !== 'released') {
      await new Promise((resolve) => setTimeout(resolve, 50));
      line = await loadLine(address);
    }
    const { weightsBytes } = line.device;
    t.ok(weightsBytes > 50e6);
    const loadedBytes = residentBytes(serverPid);
    const { at } = await served.line(/memory is given back/);
    const returnedBytes = loadedBytes - residentBytes(serverPid);
    t.ok(returnedBytes > 0.95 * weightsBytes, `${returnedBytes} of ${weightsBytes} bytes of weights`);
    t.equal((await loadLine(address)).residence, 'unloaded');
    t.equal((await fetch(`${address}/readyz`)).status, 200);

    t.equal(await answer(address), before, 'the same text as before');
    await served.line(/loaded again, after/, at);

    await served.line(/memory is given back/, at + 1);
    process.kill(served.pid, 'SIGTERM');
    t.same(await served.exited, [0, null], 'stopping while unloaded is an orderly end');
    t.equal(served.lines.filter(({ msg }) => /the server process ended/.test(msg)).length, 0, 'and no death');
  });
}
