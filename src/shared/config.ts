/**
 * Everything a user can set, with defaults, units and limits: one strict schema, checked before any state is made. The command
 * line and the environment (src/main/cli) and the embedding API all end here; nothing else reads a setting from anywhere.
 */
import { z } from 'zod';
import { findConflicts } from './config-conflicts.js';

/** Sequences that one context of the engine can hold: LLAMA_MAX_SEQ of llama.cpp v0.4.0. */
export const RUNNING_REQUESTS_MAX = 256;
/** Threads that one engine context takes: GGML_MAX_N_THREADS of llama.cpp v0.4.0. */
const THREADS_MAX = 512;
/** Above every model there is (10 million tokens), below any overflow of 32-bit cell counts. Chosen. */
const CONTEXT_TOKENS_MAX = 16 * 1024 * 1024;
/** Prompts are flat in speed from 2048 tokens a step on, and compute memory grows with the chunk. Chosen with room to try. */
const CHUNK_TOKENS_MAX = 32 * 1024;
/** Below it a step is all overhead. Chosen. */
const CHUNK_TOKENS_MIN = 16;
/** The engine rounds KV cells to 256. */
const POOL_TOKENS_MIN = 256;
/** Less holds no prefix that is worth a file. Chosen. */
const PREFIX_DIR_BYTES_MIN = 1024 * 1024;
/** A minute: it holds nothing back any more, and longer ones are mistakes in the unit. Chosen. */
const TARGET_ITL_MS_MAX = 60_000;
/** A day: longer waits are mistakes in the unit. Chosen. */
const WAIT_MS_MAX = 24 * 60 * 60 * 1000;

/** An HTTP header's characters without white space, because keys travel as `Authorization: Bearer KEY`. */
const API_KEY = /^[\x21-\x7e]+$/;
const ORIGIN = /^(\*|https?:\/\/[^\s/,]+)$/;

const whole = (min: number, max: number) => z.number().int().min(min).max(max);
const autoOr = <T extends z.ZodType>(type: T) => z.union([z.literal('auto'), type]);

/** The description of each setting says what is allowed, in the words of an error message. */
const schema = z.strictObject({
  /** A path, `hf:owner/repo[:quant]`, or a built-in name (models/registry.json). */
  model: z
    .string()
    .trim()
    .min(1)
    .default('smollm2-135m-instruct')
    .describe('a path, hf:owner/repo[:quant] or a built-in name'),
  /** What /v1/models and responses call it; null: derived from `model`. */
  servedModelName: z.string().trim().min(1).max(256).nullable().default(null).describe('a name of 1 to 256 characters'),

  host: z.string().trim().min(1).default('127.0.0.1').describe('an address or host name to listen on'),
  port: whole(0, 65_535).default(30_000).describe('an integer from 0 to 65535 (0: any free port)'),
  apiKeys: z.array(z.string().regex(API_KEY)).default([]).describe('keys of visible ASCII characters without spaces'),
  /** A file with one key a line; read at start (src/main/cli/api-keys.ts) and added to `apiKeys`. */
  apiKeyFile: z.string().min(1).nullable().default(null).describe('a path of a file with one key a line'),
  /** Origins that browsers may call from; empty: none, `*`: all. */
  corsOrigins: z
    .array(z.string().regex(ORIGIN))
    .default([])
    .describe('* or origins such as http://localhost:5173, separated by commas'),

  /** Prompt and output of one request, tokens. */
  contextTokens: autoOr(whole(16, CONTEXT_TOKENS_MAX))
    .default('auto')
    .describe(`auto or tokens from 16 to ${CONTEXT_TOKENS_MAX}`),
  maxRunningRequests: autoOr(whole(1, RUNNING_REQUESTS_MAX))
    .default('auto')
    .describe(`auto or an integer from 1 to ${RUNNING_REQUESTS_MAX}`),
  /** Prompt tokens of one step, at most. */
  chunkTokens: autoOr(whole(CHUNK_TOKENS_MIN, CHUNK_TOKENS_MAX))
    .default('auto')
    .describe(`auto or tokens from ${CHUNK_TOKENS_MIN} to ${CHUNK_TOKENS_MAX}`),
  /**
   * Inter-token latency that running requests keep while prompts are computed: sets how much of a prompt a step takes beside them.
   * Chosen: faster than reading, slow enough to prefill.
   */
  targetItlMs: whole(1, TARGET_ITL_MS_MAX).default(300).describe(`milliseconds from 1 to ${TARGET_ITL_MS_MAX}`),
  /** Requests that may wait for a slot; more get 429. Chosen: minutes of work on any machine this runs on. */
  maxQueuedRequests: whole(0, 65_536).default(512).describe('an integer from 0 to 65536'),
  /** Longest wait for a slot or for memory. Chosen: half of the ten minutes after which the usual clients give up. */
  queueTimeoutMs: whole(1, WAIT_MS_MAX).default(300_000).describe('a time from 1ms to 24h (plain numbers are seconds)'),
  /** How long a shutdown waits for running requests. Chosen. */
  shutdownTimeoutMs: whole(0, WAIT_MS_MAX).default(30_000).describe('a time from 0 to 24h (plain numbers are seconds)'),

  /** Share of the device's limit that weights and KV may take. */
  memoryFraction: autoOr(z.number().gt(0).lt(1)).default('auto').describe('auto or a number between 0 and 1'),
  /** KV cells of all requests together. */
  maxTotalTokens: autoOr(whole(POOL_TOKENS_MIN, 2 ** 31 - 1))
    .default('auto')
    .describe(`auto or tokens from ${POOL_TOKENS_MIN} to ${2 ** 31 - 1}`),
  /**
   * Without a request for so long, KV and compute memory go back to the system; the next request waits for a new context and finds no cached
   * prefix. 0: never. Chosen: a pause in a conversation is shorter, and a machine left alone gets its memory back within a coffee.
   */
  idleReleaseMs: whole(0, WAIT_MS_MAX)
    .default(300_000)
    .describe('a time from 0 (never) to 24h (plain numbers are seconds)'),
  /**
   * Without a request for so long, the weights go back to the system too, with every thread that holds them; the next request waits until they
   * are loaded again. 0: never. Chosen: a large model takes many seconds to come back, and what it left may be taken by then.
   */
  idleUnloadMs: whole(0, WAIT_MS_MAX).default(0).describe('a time from 0 (never) to 24h (plain numbers are seconds)'),
  kvType: z.enum(['f16', 'q8_0', 'q4_0', 'bf16', 'f32']).default('f16').describe('f16, q8_0, q4_0, bf16 or f32'),
  kvLayout: z.enum(['auto', 'shared', 'private']).default('auto').describe('auto, shared or private'),
  /**
   * Bytes of host memory for prefixes that were evicted from the context, at most; 0: they are forgotten. Whatever it says, they take no more than
   * the headroom allows, and go first when it shrinks. Chosen: off, because it was not measured yet on GPUs and in small memory groups.
   */
  hostPrefixCacheBytes: autoOr(whole(0, Number.MAX_SAFE_INTEGER))
    .default(0)
    .describe('auto, off or bytes such as 512MiB or 4GiB'),
  /**
   * The same for checkpoints, which models whose sequences cannot be cut back have instead; 0: none are taken. Chosen: on, because such a model
   * computes a conversation anew without them, and of a size that nobody misses (AUTO_CHECKPOINT_BYTES).
   */
  checkpointCacheBytes: autoOr(whole(0, Number.MAX_SAFE_INTEGER))
    .default('auto')
    .describe('auto, off or bytes such as 512MiB or 4GiB'),
  /** A folder for prefixes that survive a restart; null: there is none. They pass through host memory, so there is a host tier with it. */
  prefixDir: z.string().trim().min(1).nullable().default(null).describe('a path of a folder'),
  /** Bytes of all files in it, at most. auto: a quarter of what is free on the disk, 8 GiB at most (src/main/prefix-dir.ts). */
  prefixDirBytes: autoOr(whole(PREFIX_DIR_BYTES_MIN, Number.MAX_SAFE_INTEGER))
    .default('auto')
    .describe('auto or bytes from 1MiB, such as 512MiB or 20GiB'),
  prefixCache: z.boolean().default(true).describe('true or false'),
  /** How a request that runs alone is computed ahead of its samples. */
  speculative: z.enum(['ngram', 'off']).default('ngram').describe('ngram or off'),
  overlapSchedule: z.boolean().default(true).describe('true or false'),
  /** `serve` runs in a process that is started again when it crashes. */
  supervisor: z.boolean().default(true).describe('true or false'),
  /** A throw-away request before the server says it is ready. */
  warmup: z.boolean().default(true).describe('true or false'),
  /** The largest planned step, run before the server says it is ready. */
  probe: z.boolean().default(true).describe('true or false'),

  /** Device names as the engine lists them; empty: every GPU there is, else the CPU. */
  devices: z.array(z.string().trim().min(1)).default([]).describe('auto, cpu, or device names separated by commas'),
  /** Layers kept on the GPU; −1: all. */
  gpuLayers: whole(-1, 65_536).default(-1).describe('all or an integer from 0 to 65536'),
  threads: autoOr(whole(1, THREADS_MAX)).default('auto').describe(`auto or an integer from 1 to ${THREADS_MAX}`),
  flashAttention: z.enum(['auto', 'on', 'off']).default('auto').describe('auto, on or off'),

  logLevel: z
    .enum(['trace', 'debug', 'info', 'warn', 'error', 'silent'])
    .default('info')
    .describe('trace, debug, info, warn, error or silent'),
  /** auto: pretty on a terminal, JSON lines elsewhere. */
  logFormat: z.enum(['auto', 'pretty', 'json']).default('auto').describe('auto, pretty or json'),
});

export type Config = Readonly<z.output<typeof schema>>;
export type ConfigInput = z.input<typeof schema>;
export type ConfigKey = keyof Config;

export type ConfigProblem =
  | { kind: 'unknown'; key: string }
  | { kind: 'value'; key: ConfigKey; got: unknown; allowed: string }
  /** `reason` names the settings through `nameOf`, so that the command line can say its flags. */
  | { kind: 'conflict'; keys: ConfigKey[]; reason: (nameOf: (key: ConfigKey) => string) => string };

/** Settings that cannot be used. The message has one line a problem. */
export class ConfigError extends Error {
  constructor(readonly problems: readonly ConfigProblem[]) {
    super(problems.map((problem) => describeProblem(problem, (key) => key, display)).join('\n'));
    this.name = 'ConfigError';
  }
}

/** One line: what is wrong, what was got, what is allowed. `nameOf` and `gotOf` put it in the words of the one who asked. */
export function describeProblem(
  problem: ConfigProblem,
  nameOf: (key: ConfigKey) => string,
  gotOf: (got: unknown, key: ConfigKey) => string,
): string {
  if (problem.kind === 'unknown') return `unknown setting ${problem.key}`;
  if (problem.kind === 'conflict') return problem.reason(nameOf);
  return `${nameOf(problem.key)}: got ${gotOf(problem.got, problem.key)}, allowed: ${problem.allowed}`;
}

/**
 * Checks settings and fills in the defaults.
 * @returns a frozen object. @throws ConfigError with every problem there is.
 */
export function parseConfig(input: ConfigInput = {}): Config {
  const result = schema.safeParse(input);
  if (!result.success) throw new ConfigError(result.error.issues.flatMap((issue) => problemsOf(issue, input)));
  const config = result.data;
  const conflicts = findConflicts(config);
  if (conflicts.length > 0) throw new ConfigError(conflicts);
  for (const value of Object.values(config)) if (Array.isArray(value)) Object.freeze(value);
  return Object.freeze(config);
}

/** What is allowed for a setting, in words. */
export function allowedValues(key: ConfigKey): string {
  return schema.shape[key].description ?? '';
}

/** The settings as they may be logged: keys are counted, not shown. */
export function printableConfig(config: Config): Record<string, unknown> {
  return { ...config, apiKeys: config.apiKeys.length };
}

function problemsOf(issue: z.core.$ZodIssue, input: ConfigInput): ConfigProblem[] {
  if (issue.code === 'unrecognized_keys') return issue.keys.map((key) => ({ kind: 'unknown', key }));
  const key = issue.path[0] as ConfigKey;
  return [{ kind: 'value', key, got: input[key], allowed: allowedValues(key) }];
}

function display(got: unknown): string {
  return JSON.stringify(got) ?? String(got);
}
