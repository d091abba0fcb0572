/** The flags of `plimsoll bench`: which option each sets, how its text is read, and its line in the help. */
import { type ReadValue, readNumber, readText, readTimeMs, readTokens } from '../cli/flag-values.js';
import type { BenchOption } from './bench-options.js';

export interface BenchFlag {
  key: BenchOption;
  /** Without the dashes. */
  name: string;
  /** What stands for the value in the help. */
  value: string;
  read: ReadValue;
  group: 'Server' | 'Load' | 'Requests' | 'Results';
  help: string;
}

export const BENCH_FLAGS: readonly BenchFlag[] = [
  {
    key: 'url',
    name: 'url',
    value: 'url',
    read: readText,
    group: 'Server',
    help: 'any server that speaks OpenAI (http://127.0.0.1:30000)',
  },
  {
    key: 'model',
    name: 'model',
    value: 'name',
    read: readText,
    group: 'Server',
    help: 'the model (the first that it lists)',
  },
  {
    key: 'apiKey',
    name: 'api-key',
    value: 'key',
    read: readText,
    group: 'Server',
    help: 'its API key; else PLIMSOLL_API_KEY',
  },
  {
    key: 'timeoutMs',
    name: 'timeout',
    value: 'seconds',
    read: readTimeMs,
    group: 'Server',
    help: 'longest time of one request (600)',
  },

  {
    key: 'clients',
    name: 'clients',
    value: 'N',
    read: readNumber,
    group: 'Load',
    help: 'closed loop: N clients, one request each at a time (8)',
  },
  {
    key: 'rate',
    name: 'rate',
    value: 'R',
    read: readNumber,
    group: 'Load',
    help: 'open loop: R Poisson arrivals a second, whatever is unanswered',
  },
  { key: 'requests', name: 'requests', value: 'N', read: readNumber, group: 'Load', help: 'requests in all (64)' },
  {
    key: 'seed',
    name: 'seed',
    value: 'N',
    read: readNumber,
    group: 'Load',
    help: 'same seed: same prompts and arrivals (0)',
  },

  {
    key: 'promptTokens',
    name: 'prompt-tokens',
    value: 'N',
    read: readTokens,
    group: 'Requests',
    help: 'tokens of its own in each prompt (256)',
  },
  {
    key: 'sharedPrefixTokens',
    name: 'shared-prefix-tokens',
    value: 'N',
    read: readTokens,
    group: 'Requests',
    help: 'tokens before these that all prompts share (0)',
  },
  {
    key: 'outputTokens',
    name: 'output-tokens',
    value: 'N',
    read: readTokens,
    group: 'Requests',
    help: 'tokens of each answer (128)',
  },
  {
    key: 'turns',
    name: 'turns',
    value: 'N',
    read: readNumber,
    group: 'Requests',
    help: 'requests of one chat, each with all before it (1)',
  },

  {
    key: 'goodput',
    name: 'goodput',
    value: 'limits',
    read: readGoodput,
    group: 'Results',
    help: 'count requests within ttft=500,itl=50,e2e=… ms',
  },
  {
    key: 'jsonFile',
    name: 'json',
    value: 'file',
    read: readText,
    group: 'Results',
    help: 'write the results as JSON as well',
  },
  {
    key: 'svgFile',
    name: 'svg',
    value: 'file',
    read: readText,
    group: 'Results',
    help: 'draw the distribution of the latencies',
  },
];

/** `ttft=500,itl=50` as an object; what cannot be read stays text, which the schema refuses. */
function readGoodput(text: string): unknown {
  const pairs = text.split(',').map((part) => /^\s*(\w+)\s*=\s*(\d+(?:\.\d+)?)(?:ms)?\s*$/.exec(part));
  if (pairs.some((pair) => pair === null)) return text;
  const names = pairs.map((pair) => pair?.[1]);
  if (new Set(names).size < names.length) return text;
  return Object.fromEntries(pairs.map((pair) => [pair?.[1], Number(pair?.[2])]));
}
