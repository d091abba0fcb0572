import t from 'tap';
import { CliError } from '../../src/main/cli/cli-error.js';
import { environmentName, FLAGS } from '../../src/main/cli/flags.js';
import { parseCli } from '../../src/main/cli/parse.js';
import { type Config, type ConfigKey, parseConfig } from '../../src/shared/config.js';

type Env = Record<string, string>;

function config(words: string, env: Env = {}): Config {
  const parsed = parseCli(words === '' ? [] : words.split(' '), env);
  if (parsed.command === 'print') throw new Error('printed');
  return parsed.config;
}

/** What differs from the defaults. */
function changes(words: string, env: Env = {}): Partial<Config> {
  const defaults = parseConfig();
  const differs = ([key, value]: [string, unknown]) =>
    JSON.stringify(value) !== JSON.stringify(defaults[key as ConfigKey]);
  return Object.fromEntries(Object.entries(config(words, env)).filter(differs)) as Partial<Config>;
}

function usage(words: string, env: Env = {}): string {
  try {
    parseCli(words.split(' '), env);
  } catch (error) {
    if (error instanceof CliError && error.exitCode === 2) return error.message;
    throw error;
  }
  throw new Error(`${words} was taken`);
}

function printed(words: string): string {
  const parsed = parseCli(words.split(' '), {});
  return parsed.command === 'print' ? parsed.text : '';
}

t.test('nothing said: serve with the defaults', async (t) => {
  t.strictSame(parseCli([], {}), { command: 'serve', config: parseConfig() });
  t.strictSame(parseCli(['serve'], {}), { command: 'serve', config: parseConfig() });
});

t.test('pull takes a model and nothing else', async (t) => {
  const parsed = parseCli(['pull', 'hf:a/b:Q8_0'], {});
  t.equal(parsed.command, 'pull');
  t.equal(parsed.command !== 'print' && parsed.config.model, 'hf:a/b:Q8_0');
  t.equal(usage('pull'), 'plimsoll pull needs a model');
  t.match(usage('pull a b'), /^unexpected word "b"/);
  t.match(usage('pull a --port 1'), /^unknown flag --port/);
});

/** One value a flag, as typed and as it is set. */
const EXAMPLES: Record<string, [text: string, key: ConfigKey, value: unknown]> = {
  model: ['m.gguf', 'model', 'm.gguf'],
  'served-model-name': ['gpt', 'servedModelName', 'gpt'],
  host: ['0.0.0.0', 'host', '0.0.0.0'],
  port: ['0', 'port', 0],
  'api-key': ['a,b', 'apiKeys', ['a', 'b']],
  'api-key-file': ['k.txt', 'apiKeyFile', 'k.txt'],
  cors: ['http://a,http://b', 'corsOrigins', ['http://a', 'http://b']],
  'shutdown-timeout': ['500ms', 'shutdownTimeoutMs', 500],
  'no-warmup': ['', 'warmup', false],
  'no-supervisor': ['', 'supervisor', false],
  'skip-probe': ['', 'probe', false],
  'max-running-requests': ['4', 'maxRunningRequests', 4],
  'max-queued-requests': ['7', 'maxQueuedRequests', 7],
  'queue-timeout': ['1.5', 'queueTimeoutMs', 1500],
  'chunked-prefill-size': ['2k', 'chunkTokens', 2048],
  'target-itl-ms': ['50', 'targetItlMs', 50],
  'disable-radix-cache': ['', 'prefixCache', false],
  speculative: ['off', 'speculative', 'off'],
  'disable-overlap-schedule': ['', 'overlapSchedule', false],
  'context-length': ['32K', 'contextTokens', 32_768],
  'max-total-tokens': ['1m', 'maxTotalTokens', 1_048_576],
  'mem-fraction-static': ['0.85', 'memoryFraction', 0.85],
  'host-prefix-cache': ['1.5GiB', 'hostPrefixCacheBytes', 1_610_612_736],
  'checkpoint-cache': ['off', 'checkpointCacheBytes', 0],
  'prefix-dir': ['/var/prefixes', 'prefixDir', '/var/prefixes'],
  'prefix-dir-size': ['2GiB', 'prefixDirBytes', 2_147_483_648],
  'idle-release': ['2m', 'idleReleaseMs', 120_000],
  'idle-unload': ['1h', 'idleUnloadMs', 3_600_000],
  'kv-cache-dtype': ['q8_0', 'kvType', 'q8_0'],
  'kv-layout': ['private', 'kvLayout', 'private'],
  device: ['CUDA0,CUDA1', 'devices', ['CUDA0', 'CUDA1']],
  'gpu-layers': ['20', 'gpuLayers', 20],
  threads: ['3', 'threads', 3],
  'flash-attention': ['on', 'flashAttention', 'on'],
  'log-level': ['debug', 'logLevel', 'debug'],
  'log-format': ['json', 'logFormat', 'json'],
};

/** What a flag is nothing without. */
const NEEDED: Partial<Record<string, { words: string; config: object }>> = {
  'prefix-dir-size': { words: '--prefix-dir folder', config: { prefixDir: 'folder' } },
};

t.test('every flag, and its environment variable', async (t) => {
  t.strictSame(FLAGS.map(({ name }) => name).sort(), Object.keys(EXAMPLES).sort());
  for (const flag of FLAGS) {
    const [text, key, value] = EXAMPLES[flag.name];
    const { words, config } = NEEDED[flag.name] ?? { words: '', config: {} };
    t.strictSame(
      changes(`${words} ${flag.value === null ? `--${flag.name}` : `--${flag.name} ${text}`}`.trim()),
      { ...config, [key]: value },
      flag.name,
    );
    t.strictSame(
      changes(words, { [environmentName(flag)]: flag.value === null ? '1' : text }),
      { ...config, [key]: value },
      environmentName(flag),
    );
  }
});

t.test('every setting has a flag', async (t) => {
  t.strictSame(FLAGS.map(({ key }) => key).sort(), Object.keys(parseConfig()).sort());
});

t.test('the flag wins over the environment; an empty variable is none', async (t) => {
  t.strictSame(changes('--port 1', { PLIMSOLL_PORT: '2' }), { port: 1 });
  t.strictSame(changes('--no-warmup', { PLIMSOLL_NO_WARMUP: '0' }), { warmup: false });
  t.strictSame(changes('', { PLIMSOLL_PORT: '', PLIMSOLL_NO_WARMUP: 'off' }), {});
});

t.test('auto and all', async (t) => {
  const words =
    '--max-running-requests auto --chunked-prefill-size auto --context-length auto --device auto --gpu-layers all';
  t.strictSame(changes(words), {});
});

t.test('sizes of memory', async (t) => {
  for (const [text, bytes] of [
    ['512m', 2 ** 29],
    ['512MB', 2 ** 29],
    ['1048576', 2 ** 20],
    ['2GiB', 2 ** 31],
  ] as const)
    t.strictSame(changes(`--host-prefix-cache ${text}`), { hostPrefixCacheBytes: bytes });
  t.strictSame(changes('--host-prefix-cache off'), {});
  t.strictSame(changes('--host-prefix-cache auto'), { hostPrefixCacheBytes: 'auto' });
  t.match(usage('--host-prefix-cache much'), /allowed: auto, off or bytes/);
  t.match(usage('--cache-ram 8192'), /--host-prefix-cache/);
});

t.test('a key may be given several times', async (t) => {
  t.strictSame(changes('--api-key a --api-key=b,c'), { apiKeys: ['a', 'b', 'c'] });
});

t.test('spellings of other servers that mean the same', async (t) => {
  t.strictSame(changes('-m x -np 4 -ngl 7 -t 2 -fa on -a y'), {
    model: 'x',
    maxRunningRequests: 4,
    gpuLayers: 7,
    threads: 2,
    flashAttention: 'on',
    servedModelName: 'y',
  });
  t.strictSame(changes('--parallel=4 --n-gpu-layers=7 --model-path x'), {
    maxRunningRequests: 4,
    gpuLayers: 7,
    model: 'x',
  });
});

t.test('spellings that mean nearly the same are refused, with ours named', async (t) => {
  t.equal(
    usage('-c 4096'),
    '-c is not a flag here: use --context-length (tokens of one request) or --max-total-tokens (of all)',
  );
  t.match(usage('--batch-size=512'), /use --chunked-prefill-size$/);
});

t.test('an unknown flag: the nearest name', async (t) => {
  t.equal(usage('--max-runing-requests 4'), 'unknown flag --max-runing-requests; did you mean --max-running-requests?');
  t.equal(usage('--max-running 4'), 'unknown flag --max-running; did you mean --max-running-requests?');
  t.equal(usage('--prot=1'), 'unknown flag --prot; did you mean --port?');
  t.equal(usage('--zzzzzz'), 'unknown flag --zzzzzz (--help lists the flags)');
});

t.test('an unknown command', async (t) => {
  t.equal(usage('srve'), 'unknown command srve; did you mean serve?');
  t.equal(usage('plul'), 'unknown command plul; did you mean pull?', 'swapped letters are one error');
  t.equal(usage('model.gguf'), 'unexpected word "model.gguf" (a model is named with --model)');
});

t.test('a wrong value: flag, what was got, what is allowed', async (t) => {
  t.equal(usage('--port 99999'), '--port: got "99999", allowed: an integer from 0 to 65535 (0: any free port)');
  t.equal(
    usage('--max-running-requests many'),
    '--max-running-requests: got "many", allowed: auto or an integer from 1 to 256',
  );
  t.equal(usage('--context-length 4x'), '--context-length: got "4x", allowed: auto or tokens from 16 to 16777216');
  t.equal(usage('--target-itl-ms 0'), '--target-itl-ms: got "0", allowed: milliseconds from 1 to 60000');
  t.equal(usage('--target-itl-ms fast'), '--target-itl-ms: got "fast", allowed: milliseconds from 1 to 60000');
  t.equal(usage('--gpu-layers -1'), '--gpu-layers: got "-1", allowed: all or an integer from 0 to 65536');
  t.equal(
    usage('--queue-timeout soon'),
    '--queue-timeout: got "soon", allowed: a time from 1ms to 24h (plain numbers are seconds)',
  );
});

t.test('a wrong value in the environment names the variable', async (t) => {
  t.equal(
    usage('serve', { PLIMSOLL_KV_LAYOUT: 'paged' }),
    'PLIMSOLL_KV_LAYOUT: got "paged", allowed: auto, shared or private',
  );
  t.match(usage('serve', { PLIMSOLL_DISABLE_RADIX_CACHE: 'maybe' }), /^PLIMSOLL_DISABLE_RADIX_CACHE: got "maybe"/);
});

t.test('a key is never shown', async (t) => {
  t.equal(usage('serve', { PLIMSOLL_API_KEY: 'geheim schlüssel' }).includes('geheim'), false);
});

t.test('several wrong values, a line each', async (t) => {
  t.equal(usage('--port x --threads y').split('\n').length, 2);
});

t.test('missing and superfluous values', async (t) => {
  t.match(usage('--port'), /^--port needs a value: an integer/);
  t.equal(usage('--no-warmup=yes'), '--no-warmup takes no value');
});

t.test('flags that conflict are both named', async (t) => {
  t.match(
    usage('--context-length 8k --max-total-tokens 4k'),
    /^--context-length 8192 conflicts with --max-total-tokens 4096/,
  );
  t.match(usage('--device cpu', { PLIMSOLL_GPU_LAYERS: '3' }), /^PLIMSOLL_GPU_LAYERS 3 conflicts with --device cpu/);
});

t.test('help is grouped, short, and names everything', async (t) => {
  const help = printed('--help');
  for (const { name } of FLAGS) t.match(help, `--${name}`);
  for (const group of ['Model:', 'Server:', 'Scheduling:', 'Memory:', 'Device:', 'Logs:', 'Commands:'])
    t.match(help, group);
  t.ok(help.split('\n').length < 72, 'fits two screens');
  for (const line of help.split('\n')) t.ok(line.length <= 100, line);
  t.match(printed('pull --help'), /plimsoll pull/);
  t.match(printed('--version'), /^plimsoll \d+\.\d+\.\d+\n$/);
});
