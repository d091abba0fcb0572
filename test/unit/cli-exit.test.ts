import { createServer } from 'node:net';
import { join } from 'node:path';
import t from 'tap';
import { exitMessage } from '../../src/main/cli/exit-messages.js';
import { runCli } from '../../src/main/cli/run.js';
import { ModelError } from '../../src/main/models/model-error.js';
import { StartError } from '../../src/main/start-error.js';
import type { Config } from '../../src/shared/config.js';
import { EngineError, type EngineErrorCode } from '../../src/shared/engine.js';
import { PlimsollError } from '../../src/shared/errors.js';
import { planContext } from '../../src/shared/memory/planner.js';
import { exactCosts, MIB, machineInput, SMOL } from './memory-machines.js';

/** Runs the command line with a server that only notes its settings, or fails. */
async function run(argv: string[], env: Record<string, string> = {}, serve?: (config: Config) => Promise<number>) {
  let stdout = '';
  let stderr = '';
  let served: Config | null = null;
  const exitCode = await runCli(
    argv,
    env,
    {
      serve: async (config) => {
        served = config;
        return serve ? serve(config) : 0;
      },
    },
    { stdout: { write: (text) => (stdout += text) }, stderr: { write: (text) => (stderr += text) } },
  );
  return { exitCode, stdout, stderr, served: served as Config | null };
}

t.test('help and version go to stdout and serve nothing', async (t) => {
  for (const word of ['--help', '--version']) {
    const { exitCode, stdout, stderr, served } = await run([word]);
    t.match(stdout, /plimsoll/i);
    t.strictSame({ exitCode, stderr, served }, { exitCode: 0, stderr: '', served: null });
  }
});

t.test('a wrong command: exit 2, one line on stderr', async (t) => {
  const { exitCode, stdout, stderr, served } = await run(['--prot', '1']);
  t.strictSame({ exitCode, stdout, served }, { exitCode: 2, stdout: '', served: null });
  t.equal(stderr, 'plimsoll: unknown flag --prot; did you mean --port?\n');
});

t.test('the exit code of serving is the exit code', async (t) => {
  t.equal((await run([], {}, async () => 7)).exitCode, 7);
});

t.test('pull of a file that is here prints its path, and of one that is not a line', async (t) => {
  const folder = t.testdir({ 'm.gguf': `GGUF${'x'.repeat(100)}` });
  const path = join(folder, 'm.gguf');
  t.match(await run(['pull', path]), { exitCode: 0, stdout: `${path}\n`, stderr: '' });
  t.match(await run(['pull', join(folder, 'no.gguf')]), {
    exitCode: 1,
    stdout: '',
    stderr: /^plimsoll: there is no model file .*no\.gguf\n$/,
  });
});

t.test('keys of a file are added', async (t) => {
  const folder = t.testdir({ keys: '# team\nk1\n\n  k2  \r\n', none: '# nothing\n', bad: 'good\nnot a key\n' });
  t.strictSame((await run(['--api-key', 'k0', '--api-key-file', join(folder, 'keys')])).served?.apiKeys, [
    'k0',
    'k1',
    'k2',
  ]);
  for (const [name, words] of [
    ['none', /has no key in it/],
    ['bad', /has a line that is no key/],
    ['missing', /cannot be read \(ENOENT\)/],
  ] as const) {
    const { exitCode, stderr, served } = await run(['--api-key-file', join(folder, name)]);
    t.match(stderr, words);
    t.notMatch(stderr, 'not a key', 'what may be a key is not shown');
    t.strictSame({ exitCode, served }, { exitCode: 1, served: null });
  }
});

t.test('a busy port', async (t) => {
  const other = createServer();
  await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve));
  const { port } = other.address() as { port: number };
  const listen = () =>
    new Promise<number>((resolve, reject) => {
      const server = createServer().on('error', reject);
      server.listen(port, '127.0.0.1', () => server.close(() => resolve(0)));
    });
  const { exitCode, stderr } = await run(['--port', String(port)], {}, listen);
  t.equal(exitCode, 1);
  t.equal(
    stderr,
    `plimsoll: 127.0.0.1:${port} is in use by another program: stop it, or choose another port with --port\n`,
  );
  other.close();
});

t.test('engine errors: one line with the file, exit 1, no stack', async (t) => {
  const context = { modelPath: '/m/x.gguf' };
  const cases: [EngineErrorCode, RegExp][] = [
    ['model_not_found', /^\/m\/x\.gguf: tensor data/],
    [
      'model_invalid',
      /^\/m\/x\.gguf cannot be loaded: tensor data is cut off at the end \(damaged or incomplete: download it again\)$/,
    ],
    ['model_unsupported', /^\/m\/x\.gguf is of a kind that this engine cannot run: /],
    ['out_of_memory', /^\/m\/x\.gguf does not fit into memory: .*--context-length/],
    ['engine_not_found', /^the engine's libraries: .*PLIMSOLL_ENGINE_DIR/],
    ['failed', /^the engine failed: /],
  ];
  for (const [code, words] of cases) {
    const { exitCode, text } = exitMessage(new EngineError(code, 'tensor data is cut off\n  at the end'), context);
    t.equal(exitCode, 1);
    t.match(text, words);
    t.notMatch(text, /\n/);
  }
  const named = new StartError('model_invalid', '/m/x.gguf cannot be loaded: bad key');
  t.equal(
    exitMessage(named, context).text,
    '/m/x.gguf cannot be loaded: bad key (damaged or incomplete: download it again)',
    'the file is named once',
  );
  t.equal(exitMessage(new StartError('refused', 'the plan does not fit'), context).text, 'the plan does not fit');
  const copy = Object.assign(new Error('from a worker'), { name: 'EngineError', code: 'model_unsupported' });
  t.match(exitMessage(copy, context).text, /^\/m\/x\.gguf is of a kind/, 'a copy that crossed threads counts too');
});

t.test('a refused plan shows its arithmetic and what would do', async (t) => {
  const input = machineInput('host', 300 * MIB, 200 * MIB, SMOL, { contextTokens: 100_000 });
  const refusal = planContext(input, exactCosts(SMOL, 'host'));
  if (!refusal.refused) throw new Error('it was planned');
  const { exitCode, text } = exitMessage(StartError.refused(refusal));
  t.equal(exitCode, 1);
  for (const part of [/does not fit/, /limit − .* = .* short/, /would do: .*[\d.]+ [GM]iB/, /try --context-length/])
    t.match(text, part);
});

t.test('system errors', async (t) => {
  const error = (code: string, more: object = {}) => Object.assign(new Error(code), { code, ...more });
  const context = { host: '10.0.0.1', port: 80 };
  for (const [thrown, words] of [
    [error('EADDRNOTAVAIL', { address: '10.0.0.1' }), /^10\.0\.0\.1 is no address of this machine: .*--host$/],
    [error('EACCES', { syscall: 'listen' }), /may not listen on 10\.0\.0\.1:80: choose a port above 1023/],
    [error('EACCES', { path: '/x' }), /^\/x may not be used by this user/],
    [error('ENOTFOUND', { hostname: 'nowhere' }), /^the host name nowhere is not known/],
    [error('ENOSPC'), /^the disk is full/],
    [error('EROFS', { path: '/c' }), /^\/c cannot be written/],
    [error('EMFILE'), /ulimit -n/],
  ] as const) {
    t.match(exitMessage(thrown, context), { exitCode: 1, text: words });
  }
});

t.test('other errors of ours', async (t) => {
  t.strictSame(exitMessage(new PlimsollError('insufficient_memory', 'the plan does not fit')), {
    exitCode: 1,
    text: 'the plan does not fit',
  });
  t.equal(exitMessage(new ModelError('cancelled', 'cancelled')).exitCode, 130);
});

t.test('only a bug shows a stack', async (t) => {
  t.match(exitMessage(new TypeError('x is not a function')).text, /bug in Plimsoll.*\n {4}at /s);
  t.match(exitMessage('thrown text'), { exitCode: 1, text: /thrown text/ });
});
