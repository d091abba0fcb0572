/** What `plimsoll bench` can be told: one strict schema with defaults, units and limits, checked before anything is sent. */
import { z } from 'zod';

/** Connections that a Plimsoll server takes at once; more of them measure refusals. */
export const IN_FLIGHT_MAX = 1024;
/** Results take the same memory whatever their number; a million requests are days of work. Chosen. */
const REQUESTS_MAX = 1_000_000;
/** Above any context there is. Chosen. */
const TOKENS_MAX = 16 * 1024 * 1024;
const TURNS_MAX = 1000;
/** Arrivals a second that one client thread still makes on time. Chosen. */
const RATE_MAX = 10_000;
const TIMEOUT_MS_MAX = 24 * 60 * 60 * 1000;
const LIMIT_MS_MAX = 24 * 60 * 60 * 1000;

const whole = (min: number, max: number) =>
  z.number().int().min(min).max(max).describe(`an integer from ${min} to ${max}`);
const limitMs = z.number().gt(0).max(LIMIT_MS_MAX).optional();

/** The description of each option says what is allowed, in the words of an error message. */
export const BENCH_SCHEMA = z.strictObject({
  /** Where the server is, without /v1 and without a slash at the end. */
  url: z
    .string()
    .refine(isHttpUrl)
    .transform((url) => url.replace(/\/+$/, '').replace(/\/v1$/, ''))
    .default('http://127.0.0.1:30000')
    .describe('a URL such as http://127.0.0.1:30000'),
  /** null: the first that the server lists. */
  model: z.string().min(1).nullable().default(null).describe('a name that the server knows'),
  apiKey: z
    .string()
    .regex(/^[\x21-\x7e]+$/)
    .nullable()
    .default(null)
    .describe('visible ASCII characters without spaces'),

  /** Closed loop: so many clients, each sends its next request when its last one is over. null with `rate`. */
  clients: whole(1, IN_FLIGHT_MAX).nullable().default(null),
  /** Open loop: arrivals a second, whatever the server does. null: a closed loop. */
  rate: z
    .number()
    .gt(0)
    .max(RATE_MAX)
    .nullable()
    .default(null)
    .describe(`arrivals a second, above 0 and up to ${RATE_MAX}`),
  requests: whole(1, REQUESTS_MAX).default(64),
  seed: whole(0, 2 ** 31 - 1).default(0),
  /** Longest time of one request, from its sending to its end. */
  timeoutMs: whole(1, TIMEOUT_MS_MAX).default(600_000).describe('a time from 1ms to 24h (plain numbers are seconds)'),

  /** Tokens of a request's own prompt, the chat template's included; with `turns`, of each message. */
  promptTokens: whole(1, TOKENS_MAX).default(256),
  outputTokens: whole(1, TOKENS_MAX).default(128),
  /** Tokens before these that are the same in every chat. */
  sharedPrefixTokens: whole(0, TOKENS_MAX).default(0),
  /** Requests of one chat; each sends everything that was said before. */
  turns: whole(1, TURNS_MAX).default(1),

  /** Milliseconds that a good request stays within; null: goodput is not asked for. */
  goodput: z
    .strictObject({ ttft: limitMs, itl: limitMs, e2e: limitMs })
    .nullable()
    .default(null)
    .describe('limits in milliseconds, such as ttft=500,itl=50 (also e2e)'),

  jsonFile: z.string().min(1).nullable().default(null).describe('a path of a file'),
  svgFile: z.string().min(1).nullable().default(null).describe('a path of a file'),
});

export type BenchOptions = Readonly<z.output<typeof BENCH_SCHEMA>>;
export type BenchOption = keyof BenchOptions;
/** Milliseconds, by measure. */
export type GoodputLimits = NonNullable<BenchOptions['goodput']>;

/** Clients of a closed loop where neither they nor a rate are given. Chosen: enough to show batching on any machine. */
export const CLIENTS_DEFAULT = 8;

/** What is allowed for an option, in words. */
export function allowedForBench(option: BenchOption): string {
  return BENCH_SCHEMA.shape[option].description ?? descriptionWithin(BENCH_SCHEMA.shape[option]);
}

/** Chats of the whole run: with several turns each they make at least `requests` requests. */
export function chatCount({ requests, turns }: Pick<BenchOptions, 'requests' | 'turns'>): number {
  return Math.ceil(requests / turns);
}

/** A default or `nullable` around a described type has no description of its own. */
function descriptionWithin(type: z.ZodType): string {
  if (type.description !== undefined) return type.description;
  const inner = (type as { def?: { innerType?: z.ZodType } }).def?.innerType;
  return inner === undefined ? '' : descriptionWithin(inner);
}

function isHttpUrl(text: string): boolean {
  return URL.canParse(text) && /^https?:$/.test(new URL(text).protocol);
}
