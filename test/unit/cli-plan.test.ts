import { join } from 'node:path';
import t from 'tap';
import { CliError } from '../../src/main/cli/cli-error.js';
import { parseCli } from '../../src/main/cli/parse.js';
import { planTargets } from '../../src/main/cli/plan-targets.js';
import { runCli } from '../../src/main/cli/run.js';
import { PROFILES } from '../../src/shared/memory/profiles.js';
import { tinyHeader } from '../support/gguf-header.js';

async function plan(words: string[], env: Record<string, string> = {}) {
  let stdout = '';
  let stderr = '';
  const streams = {
    stdout: { write: (text: string) => (stdout += text) },
    stderr: { write: (text: string) => (stderr += text) },
  };
  const serve = async () => t.fail('it must not serve') as never;
  const exitCode = await runCli(['plan', ...words], env, { serve }, streams);
  return { exitCode, stdout, stderr };
}

function refusedName(words: string[], devices: string[] = ['CPU']): string {
  try {
    planTargets(words, devices);
  } catch (error) {
    if (error instanceof CliError && error.exitCode === 2) return error.message;
    throw error;
  }
  throw new Error(`${words} was taken`);
}

t.test('flags: those of serve that decide a plan, and no others', async (t) => {
  const parsed = parseCli('plan --model m.gguf -np 4 --context-length 32k --device h200 --json'.split(' '), {});
  t.match(parsed, {
    command: 'plan',
    json: true,
    config: { model: 'm.gguf', maxRunningRequests: 4, contextTokens: 32_768, devices: ['h200'] },
  });
  t.match(parseCli(['plan'], { PLIMSOLL_KV_LAYOUT: 'private' }), { json: false, config: { kvLayout: 'private' } });
  t.throws(() => parseCli(['plan', '--port', '1'], {}), { exitCode: 2, message: /^unknown flag --port/ });
  t.throws(() => parseCli(['plan', '--jsn'], {}), { message: /did you mean --json\?/ });
  t.throws(() => parseCli(['serve', '--json'], {}), { message: /^unknown flag --json/ });
  t.throws(() => parseCli(['pln'], {}), { message: /did you mean plan\?/ });
});

t.test(
  'devices: nothing is this machine, names are profiles or devices of this one, all is every profile',
  async (t) => {
    t.strictSame(planTargets([], []), [{ kind: 'here', devices: [] }]);
    t.strictSame(planTargets(['this'], []), [{ kind: 'here', devices: [] }]);
    t.strictSame(planTargets(['cuda0', 'CUDA1'], ['CPU', 'CUDA0', 'CUDA1']), [
      { kind: 'here', devices: ['CUDA0', 'CUDA1'] },
    ]);
    t.match(planTargets(['M4-Pro-24GB', 'this'], []), [{ profile: { name: 'm4-pro-24gb' } }, { kind: 'here' }]);
    t.equal(planTargets(['all'], []).length, PROFILES.length);
  },
);

t.test('an unknown name: the nearest ones, or what there is', async (t) => {
  t.equal(
    refusedName(['m4-pr']),
    'no device or profile is called "m4-pr"; did you mean m4-pro-24gb, m4-pro-48gb, m4-pro-64gb?',
  );
  t.match(refusedName(['rtx-409']), /did you mean rtx-4090, /);
  t.match(refusedName(['cuda1'], ['CPU', 'CUDA0']), /did you mean CUDA0|this machine has CPU, CUDA0/);
  t.match(refusedName(['vax']), /this machine has CPU; profiles are named such as/);
});

t.test('a profile is planned for from a header alone, without an engine', async (t) => {
  const path = join(t.testdir({ 'm.gguf': tinyHeader() }), 'm.gguf');
  const noEngine = { PLIMSOLL_ENGINE_DIR: '/nowhere' };
  const { exitCode, stdout, stderr } = await plan(['--model', path, '--device', 'm1-8gb,rtx-4090'], noEngine);
  t.strictSame({ exitCode, stderr }, { exitCode: 0, stderr: '' });
  t.match(stdout, /^m1-8gb +(private|shared) +16 +4096 /m);
  t.match(stdout, /^m\.gguf on rtx-4090 \(NVIDIA RTX 4090: total memory as nvidia-smi shows it\)$/m);
  t.equal(stdout.match(/what would change it/g)?.length, 2);
});

t.test('flags are honoured in the plan', async (t) => {
  const path = join(t.testdir({ 'm.gguf': tinyHeader() }), 'm.gguf');
  const words = ['--model', path, '--device', 'h200', '--json'];
  const flags = ['--max-running-requests', '3', '--context-length', '1k', '--kv-layout', 'private'];
  const { stdout } = await plan([...words, ...flags, '--chunked-prefill-size', '256', '--kv-cache-dtype', 'q8_0']);
  const [entry] = JSON.parse(stdout);
  t.match(entry, { fits: true, layout: 'private', runningCap: 3, contextTokens: 1024, chunkTokens: 256, notes: [] });
  const [wide] = JSON.parse((await plan([...words, ...flags])).stdout);
  t.ok(entry.kvBytes < wide.kvBytes * 0.6, 'q8_0 takes about half');
});

t.test('nothing fits: exit 1 and the arithmetic', async (t) => {
  const path = join(t.testdir({ 'm.gguf': tinyHeader({ tensorElements: 6e9 }) }), 'm.gguf');
  const one = await plan(['--model', path, '--device', 'rtx-3070']);
  t.equal(one.exitCode, 1);
  t.match(one.stdout, /^rtx-3070 +does not fit/m);
  t.match(
    one.stdout,
    /GiB limit − .* weights − .* = .* short\n {2}what binds: the device limit\n {2}would do: a limit of/,
  );
  t.equal((await plan(['--model', path, '--device', 'rtx-3070,h200'])).exitCode, 0, 'it fits on one of them');
  const far = join(t.testdir({ 'far.gguf': tinyHeader({ tensorElements: 1e12 }) }), 'far.gguf');
  const all = await plan(['--model', far, '--device', 'all']);
  t.equal(all.exitCode, 1);
  t.equal(all.stdout.match(/what binds/g)?.length, 1, 'of many, the nearest is explained');
  t.match(all.stdout, /on m3-ultra-512gb/);
});

t.test('many machines are a table, one row each', async (t) => {
  const path = join(t.testdir({ 'm.gguf': tinyHeader() }), 'm.gguf');
  const { stdout } = await plan(['--model', path, '--device', 'all']);
  for (const { name } of PROFILES) t.match(stdout, new RegExp(`^${name} `, 'm'));
  t.notMatch(stdout, /what would change it/);
});

t.test('the parts of a split file are summed; a part that is missing or not the first is named', async (t) => {
  const part = tinyHeader({ tensorElements: 500_000_000 });
  const folder = t.testdir({
    'm-00001-of-00002.gguf': part,
    'm-00002-of-00002.gguf': part,
    'x-00001-of-00002.gguf': part,
  });
  const words = (name: string) => ['--model', join(folder, name), '--device', 'h200', '--json'];
  t.match(JSON.parse((await plan(words('m-00001-of-00002.gguf'))).stdout), [{ weightsBytes: 2e9 }]);
  t.match(await plan(words('m-00002-of-00002.gguf')), { exitCode: 1, stderr: /is part 2 of 2: name the first\n$/ });
  t.match(await plan(words('x-00001-of-00002.gguf')), {
    exitCode: 1,
    stderr: /no model file .*x-00002-of-00002\.gguf\n$/,
  });
});

t.test('a file that is no model or lacks what a plan needs: one line, exit 1', async (t) => {
  const whole = tinyHeader();
  const folder = t.testdir({
    'cut.gguf': whole.subarray(0, whole.length - 40),
    'nameless.gguf': tinyHeader({ architecture: null }),
  });
  const of = (name: string) => plan(['--model', join(folder, name), '--device', 'h200']);
  t.match(await of('cut.gguf'), {
    exitCode: 1,
    stdout: '',
    stderr: /cut\.gguf is damaged: the file ends inside its header.*\n$/,
  });
  t.match(await of('nameless.gguf'), {
    exitCode: 1,
    stderr: /cannot be planned for: the file does not name its architecture\n$/,
  });
  t.match(await of('none.gguf'), { exitCode: 1, stderr: /^plimsoll: there is no model file / });
});
