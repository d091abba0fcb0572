import t from 'tap';
import {
  ConfigError,
  type ConfigInput,
  type ConfigKey,
  parseConfig,
  printableConfig,
} from '../../src/shared/config.js';

function problems(input: unknown): string[] {
  try {
    parseConfig(input as ConfigInput);
    return [];
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return error.message.split('\n');
  }
}

t.test('the defaults', async (t) => {
  t.strictSame(parseConfig(), {
    model: 'smollm2-135m-instruct',
    servedModelName: null,
    host: '127.0.0.1',
    port: 30000,
    apiKeys: [],
    apiKeyFile: null,
    corsOrigins: [],
    contextTokens: 'auto',
    maxRunningRequests: 'auto',
    chunkTokens: 'auto',
    targetItlMs: 300,
    maxQueuedRequests: 512,
    queueTimeoutMs: 300_000,
    shutdownTimeoutMs: 30_000,
    memoryFraction: 'auto',
    maxTotalTokens: 'auto',
    kvType: 'f16',
    kvLayout: 'auto',
    hostPrefixCacheBytes: 0,
    checkpointCacheBytes: 'auto',
    prefixDir: null,
    prefixDirBytes: 'auto',
    prefixCache: true,
    speculative: 'ngram',
    overlapSchedule: true,
    supervisor: true,
    warmup: true,
    probe: true,
    idleReleaseMs: 300_000,
    idleUnloadMs: 0,
    devices: [],
    gpuLayers: -1,
    threads: 'auto',
    flashAttention: 'auto',
    logLevel: 'info',
    logFormat: 'auto',
  });
});

t.test('nobody changes it afterwards', async (t) => {
  const config = parseConfig({ apiKeys: ['k'] });
  t.throws(() => Object.assign(config, { port: 1 }), TypeError);
  t.throws(() => config.apiKeys.push('x'), TypeError);
  t.throws(() => parseConfig().devices.push('x'), TypeError, 'nor the next default');
});

t.test('a setting that there is not', async (t) => {
  t.strictSame(problems({ prot: 1 }), ['unknown setting prot']);
});

t.test('every problem is reported, one line each', async (t) => {
  t.equal(problems({ port: -1, kvType: 'f8', threads: 0 }).length, 3);
});

t.test('keys are not logged', async (t) => {
  const printable = printableConfig(parseConfig({ apiKeys: ['secret', 'other'] }));
  t.equal(printable.apiKeys, 2);
  t.notMatch(JSON.stringify(printable), /secret/);
});

/** One rule a setting: what is taken, and what is refused. Types are strict: the command line reads texts before they get here. */
const RULES: [ConfigKey, good: unknown[], bad: unknown[]][] = [
  ['model', ['x', 'hf:a/b:Q8_0'], ['', '  ', 3, null]],
  ['servedModelName', ['gpt', null], ['', 'x'.repeat(257)]],
  ['host', ['0.0.0.0', '::1', 'localhost'], ['', 1]],
  ['port', [0, 80, 65_535], [-1, 65_536, 1.5, '80', null]],
  ['apiKeys', [[], ['sk-1', 'b']], [['a b'], [''], ['é'], 'a', ['a\n']]],
  ['apiKeyFile', ['keys', null], ['']],
  ['corsOrigins', [[], ['*'], ['http://localhost:5173', 'https://a.b']], [['localhost'], ['http://a/b'], '*']],
  ['contextTokens', ['auto', 16, 131_072], [15, 0, -1, 2.5, 'max', 2 ** 25]],
  ['maxRunningRequests', ['auto', 1, 256], [0, 257, 1.5, '4', null]],
  ['chunkTokens', ['auto', 16, 2048, 32_768], [15, 32_769, -1]],
  ['targetItlMs', [1, 150, 60_000], [0, 60_001, 0.5, '50', 'auto']],
  ['maxQueuedRequests', [0, 1, 65_536], [-1, 65_537, 'auto']],
  ['queueTimeoutMs', [1, 86_400_000], [0, 86_400_001, -1, 0.5]],
  ['shutdownTimeoutMs', [0, 86_400_000], [-1, 86_400_001]],
  ['memoryFraction', ['auto', 0.01, 0.99], [0, 1, -0.5, 90, Number.NaN]],
  ['maxTotalTokens', ['auto', 256, 2 ** 31 - 1], [255, 2 ** 31]],
  ['kvType', ['f16', 'q8_0', 'q4_0', 'bf16', 'f32'], ['auto', 'fp8', 'F16']],
  ['kvLayout', ['auto', 'shared', 'private'], ['unified', '']],
  ['prefixDir', [null, '/var/prefixes'], ['', ' ', 3]],
  ['prefixDirBytes', ['auto', 2 ** 20, 2 ** 40], [0, 2 ** 20 - 1, 1.5, '8GiB']],
  ['hostPrefixCacheBytes', ['auto', 0, 2 ** 33], [-1, 0.5, 'off', '1g']],
  ['checkpointCacheBytes', ['auto', 0, 2 ** 33], [-1, 0.5, 'off', '1g']],
  ['prefixCache', [true, false], ['true', 1]],
  ['speculative', ['ngram', 'off'], ['NGRAM', 'draft', true]],
  ['overlapSchedule', [true, false], ['no', 0]],
  ['supervisor', [true, false], ['no']],
  ['warmup', [true, false], [null]],
  ['probe', [true, false], [1]],
  ['idleReleaseMs', [0, 1, 86_400_000], [-1, 0.5, 86_400_001]],
  ['idleUnloadMs', [0, 1, 86_400_000], [-1, 0.5, 86_400_001]],
  ['devices', [[], ['cpu'], ['CUDA0', 'CUDA1']], ['cpu', [''], [1]]],
  ['gpuLayers', [-1, 0, 99], [-2, 1.5, 'all']],
  ['threads', ['auto', 1, 512], [0, 513, -1]],
  ['flashAttention', ['auto', 'on', 'off'], [true, 'yes']],
  ['logLevel', ['trace', 'debug', 'info', 'warn', 'error', 'silent'], ['verbose', 'INFO']],
  ['logFormat', ['auto', 'pretty', 'json'], ['text']],
];

/** What a setting is nothing without. */
const NEEDED: Partial<Record<string, object>> = { prefixDirBytes: { prefixDir: 'folder' } };

t.test('every setting has a rule here', async (t) => {
  t.strictSame(RULES.map(([key]) => key).sort(), Object.keys(parseConfig()).sort());
});

for (const [key, good, bad] of RULES) {
  t.test(key, async (t) => {
    for (const value of good) t.strictSame(parseConfig({ ...NEEDED[key], [key]: value })[key], value);
    for (const value of bad) {
      const [line, ...more] = problems({ [key]: value });
      t.equal(line?.split(', allowed: ')[0], `${key}: got ${JSON.stringify(value)}`);
      t.match(line?.split(', allowed: ')[1], /\w/, 'says what is allowed');
      t.strictSame(more, []);
    }
  });
}

t.test('a request cannot have more tokens than all together', async (t) => {
  t.match(
    problems({ contextTokens: 8192, maxTotalTokens: 4096 })[0],
    /^contextTokens 8192 conflicts with maxTotalTokens 4096/,
  );
  t.strictSame(problems({ contextTokens: 4096, maxTotalTokens: 4096 }), []);
  t.strictSame(problems({ contextTokens: 'auto', maxTotalTokens: 4096 }), []);
});

t.test('layers on a GPU, and no GPU', async (t) => {
  t.match(problems({ devices: ['CPU'], gpuLayers: 10 })[0], /^gpuLayers 10 conflicts with devices cpu/);
  t.strictSame(problems({ devices: ['cpu'], gpuLayers: 0 }), []);
  t.strictSame(problems({ devices: ['cpu'] }), [], 'all layers is the default, not a wish');
  t.strictSame(problems({ devices: ['CUDA0', 'CPU'], gpuLayers: 10 }), []);
});

t.test('a folder for prefixes without a prefix cache', async (t) => {
  t.match(problems({ prefixDir: '/p', prefixCache: false })[0], /^prefixDir \/p conflicts with prefixCache/);
  t.strictSame(problems({ prefixDir: '/p' }), []);
});

t.test('a quantized KV cache without flash attention', async (t) => {
  t.match(problems({ kvType: 'q4_0', flashAttention: 'off' })[0], /^kvType q4_0 conflicts with flashAttention off/);
  t.strictSame(problems({ kvType: 'q4_0', flashAttention: 'auto' }), []);
  t.strictSame(problems({ kvType: 'bf16', flashAttention: 'off' }), []);
});
