import t from 'tap';
import { BENCH_FLAGS } from '../../src/main/bench-command/bench-flags.js';
import { BENCH_SCHEMA, type BenchOptions, chatCount } from '../../src/main/bench-command/bench-options.js';
import { parseBench } from '../../src/main/bench-command/parse-bench.js';
import { CliError } from '../../src/main/cli/cli-error.js';

function options(words: string, env: Record<string, string> = {}): BenchOptions {
  const parsed = parseBench(words === '' ? [] : words.split(' '), env);
  if ('help' in parsed) throw new Error('printed');
  return parsed.options;
}

function usage(words: string): string {
  try {
    parseBench(words.split(' '), {});
  } catch (error) {
    if (error instanceof CliError && error.exitCode === 2) return error.message;
    throw error;
  }
  throw new Error(`${words} was taken`);
}

t.test('the defaults: a closed loop against the own server', async (t) => {
  t.strictSame(options(''), {
    url: 'http://127.0.0.1:30000',
    model: null,
    apiKey: null,
    clients: 8,
    rate: null,
    requests: 64,
    seed: 0,
    timeoutMs: 600_000,
    promptTokens: 256,
    outputTokens: 128,
    sharedPrefixTokens: 0,
    turns: 1,
    goodput: null,
    jsonFile: null,
    svgFile: null,
  });
});

t.test('every option has a flag, and every flag a good and a bad value', async (t) => {
  const EXAMPLES: Record<string, [good: string, value: unknown, bad: string]> = {
    url: ['https://host/api/v1/', 'https://host/api', 'host:80'],
    model: ['m', 'm', ''],
    'api-key': ['k', 'k', 'é'],
    timeout: ['1.5', 1500, 'soon'],
    clients: ['3', 3, '0'],
    rate: ['0.5', 0.5, '0'],
    requests: ['7', 7, '1.5'],
    seed: ['9', 9, '-1'],
    'prompt-tokens': ['4k', 4096, '0'],
    'shared-prefix-tokens': ['0', 0, 'x'],
    'output-tokens': ['1', 1, '0'],
    turns: ['2', 2, '1001'],
    goodput: ['ttft=500,itl=50.5ms', { ttft: 500, itl: 50.5 }, 'ttft'],
    json: ['f.json', 'f.json', ''],
    svg: ['f.svg', 'f.svg', ''],
  };
  t.strictSame(BENCH_FLAGS.map(({ key }) => key).sort(), Object.keys(BENCH_SCHEMA.shape).sort());
  t.strictSame(BENCH_FLAGS.map(({ name }) => name).sort(), Object.keys(EXAMPLES).sort());
  for (const { key, name } of BENCH_FLAGS) {
    const [good, value, bad] = EXAMPLES[name];
    t.strictSame(options(`--${name} ${good}`)[key], value, name);
    const shown = name === 'api-key' ? '***' : bad;
    t.ok(usage(`--${name}=${bad}`).startsWith(`--${name}: got "${shown}", allowed: `), name);
    t.match(usage(`--${name}`), new RegExp(`^--${name} needs a value: \\w`), name);
  }
});

t.test('a rate makes an open loop, and has no clients', async (t) => {
  t.match(options('--rate 2'), { rate: 2, clients: null });
  t.match(usage('--rate 2 --clients 3'), /^--clients conflicts with --rate/);
});

t.test('goodput limits are known, and each is said once', async (t) => {
  t.strictSame(options('--goodput e2e=9').goodput, { e2e: 9 });
  for (const bad of ['ttft=5,ttft=6', 'tpot=5', 'ttft=0', 'ttft=5,'])
    t.match(usage(`--goodput ${bad}`), /^--goodput: got/);
});

t.test('turns make chats of at least that many requests', async (t) => {
  t.equal(chatCount({ requests: 10, turns: 4 }), 3);
});

t.test('the key of a server, from the environment', async (t) => {
  t.equal(options('', { PLIMSOLL_API_KEY: 'a,b' }).apiKey, 'a');
  t.equal(options('--api-key c', { PLIMSOLL_API_KEY: 'a' }).apiKey, 'c');
});

t.test('what it does not know: the nearest flag', async (t) => {
  t.equal(usage('--promt-tokens 3'), 'unknown flag --promt-tokens; did you mean --prompt-tokens?');
  t.match(usage('http://localhost'), /^unexpected word "http:\/\/localhost"/);
});

t.test('help names every flag', async (t) => {
  const parsed = parseBench(['--help'], {});
  const help = 'help' in parsed ? parsed.help : '';
  for (const { name } of BENCH_FLAGS) t.match(help, `--${name} <`);
});
