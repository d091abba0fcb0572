/** `plimsoll plan` and `plimsoll doctor` as a user runs them, with a real model and the real engine. */
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { requireTestModel } from '../support/test-models.js';

const MAIN = fileURLToPath(new URL('../../src/main.js', import.meta.url));
const MODEL = requireTestModel('smollm2');
/** KV bytes of a token of SmolLM2 135M at f16: 30 layers, keys and values, 3 heads of 64, 2 bytes. */
const TOKEN_BYTES = 30 * 2 * 3 * 64 * 2;
/** Far above what either takes, so that only a hang fails. Chosen. */
const TIMEOUT_MS = 120_000;

interface Ended {
  exitCode: number;
  stdout: string;
  stderr: string;
}

function plimsoll(...words: string[]): Promise<Ended> {
  return new Promise((resolve) => {
    execFile(process.execPath, [MAIN, ...words], { timeout: TIMEOUT_MS }, (error, stdout, stderr) =>
      resolve({ exitCode: error === null ? 0 : Number(error.code), stdout, stderr }),
    );
  });
}

t.test('this machine: measured by the engine, every flag honoured', async (t) => {
  const flags = ['--context-length', '2k', '--max-running-requests', '2', '--chunked-prefill-size', '128'];
  const { exitCode, stdout, stderr } = await plimsoll('plan', '--model', MODEL, ...flags, '--json');
  t.strictSame({ exitCode, stderr }, { exitCode: 0, stderr: '' });
  const [plan] = JSON.parse(stdout);
  t.match(plan, {
    device: 'this',
    fits: true,
    costSource: 'exact',
    contextTokens: 2048,
    runningCap: 2,
    chunkTokens: 128,
    kvBytes: plan.poolTokens * TOKEN_BYTES,
    notes: [],
  });
  t.ok(plan.computeBytes > 1e6 && plan.weightsBytes > 9e7);
  const [limit, ...others] = plan.ledger.map(({ bytes }: { bytes: number }) => bytes);
  t.equal(
    others.reduce((sum: number, bytes: number) => sum + bytes, 0),
    limit,
    'the ledger adds up',
  );
});

t.test('the estimate for a profile has the same KV, and nearly the same compute', async (t) => {
  const flags = ['--context-length', '4k', '--max-running-requests', '1', '--kv-layout', 'private', '--json'];
  const words = ['plan', '--model', MODEL, '--device', 'this,rtx-4090', '--chunked-prefill-size', '256', ...flags];
  const { stdout } = await plimsoll(...words);
  const [here, card] = JSON.parse(stdout);
  t.match([here.costSource, card.costSource], ['exact', 'analytic']);
  t.equal(here.kvBytes, card.kvBytes);
  const ratio = card.computeBytes / here.computeBytes;
  t.ok(ratio >= 0.97 && ratio < 1.25, `compute ${ratio.toFixed(3)} of the engine's`);
});

t.test('what cannot fit here: exit 1, the arithmetic, and a context that would', async (t) => {
  const refused = await plimsoll('plan', '--model', MODEL, '--context-length', '16m');
  t.equal(refused.exitCode, 1);
  t.match(refused.stdout, /360\.00 GiB kv .* short\n/);
  const largest = /--context-length (\d+): the largest context that fits/.exec(refused.stdout)?.[1] ?? '0';
  t.ok(Number(largest) > 2048, refused.stdout);
});

t.test('doctor: engine, addon and model are found', async (t) => {
  const { exitCode, stdout, stderr } = await plimsoll('doctor', '--model', MODEL, '--port', '0', '--json');
  t.equal(stderr, '');
  const report = JSON.parse(stdout);
  t.equal(exitCode, report.canServe ? 0 : 1);
  const status = (name: string) => report.checks.find((check: { name: string }) => check.name === name)?.status;
  for (const name of ['llama.cpp', 'addon', 'model', 'fits', 'system', 'port']) t.equal(status(name), 'ok', name);
  t.ok(report.facts.engine.readings.systemTotalBytes > 0);
  const text = await plimsoll('doctor', '--model', MODEL, '--port', '0');
  t.match(text.stdout, /✓ addon +loads\n[\s\S]*This machine can serve/);
});

t.test('doctor: a model that is not there is a problem and exit 1', async (t) => {
  const { exitCode, stdout } = await plimsoll('doctor', '--model', '/nowhere/m.gguf', '--port', '0');
  t.equal(exitCode, 1);
  t.match(stdout, /✗ model +there is no model file \/nowhere\/m\.gguf\n/);
  t.match(stdout, /This machine cannot serve: 1 problem/);
});
