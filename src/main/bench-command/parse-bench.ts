/** From the words after `plimsoll bench` to its options. Pure: reads nothing else and writes nothing. */
import { type Command, CommanderError, Option } from 'commander';
import { CliError, EXIT_USAGE } from '../cli/cli-error.js';
import { nearestName } from '../cli/nearest.js';
import type { Environment } from '../cli/parse.js';
import { throwingCommand } from '../cli/throwing-command.js';
import { BENCH_FLAGS } from './bench-flags.js';
import {
  allowedForBench,
  BENCH_SCHEMA,
  type BenchOption,
  type BenchOptions,
  CLIENTS_DEFAULT,
} from './bench-options.js';

/** `help`: text for stdout and nothing else to do. */
export type ParsedBench = { options: BenchOptions } | { help: string };

/** @throws CliError (exit code 2) with one line for each problem. */
export function parseBench(words: readonly string[], env: Environment): ParsedBench {
  let help = '';
  const command = buildBench((text) => {
    help += text;
  });
  try {
    command.parse([...words], { from: 'user' });
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    if (error.code === 'commander.helpDisplayed') return { help };
    throw usageError(error, command);
  }
  const typed = command.opts<Record<string, string>>();
  const texts = new Map<BenchOption, string>();
  const input: Record<string, unknown> = {};
  for (const { key, name, read } of BENCH_FLAGS) {
    const text = typed[new Option(`--${name} <v>`).attributeName()];
    if (text === undefined) continue;
    texts.set(key, text);
    input[key] = read(text);
  }
  // The variable that gives a server its keys, so that a key need not stand in a list of processes. It may hold several.
  const key = env.PLIMSOLL_API_KEY?.split(',')[0].trim();
  if (input.apiKey === undefined && key) input.apiKey = key;
  return { options: checked(input, texts) };
}

function buildBench(write: (text: string) => void): Command {
  const command = throwingCommand(
    'plimsoll bench',
    'Measures a server that speaks the OpenAI API: latency, throughput and goodput of streamed chats.',
    write,
  );
  for (const { name, value, help, group } of BENCH_FLAGS) {
    command.addOption(new Option(`--${name} <${value}>`, help).helpGroup(`${group}:`));
  }
  return command;
}

function checked(input: Record<string, unknown>, texts: ReadonlyMap<BenchOption, string>): BenchOptions {
  if (input.clients !== undefined && input.rate !== undefined)
    throw usage('--clients conflicts with --rate: a closed loop has clients, an open one a rate');
  const result = BENCH_SCHEMA.safeParse(input);
  if (!result.success) {
    const wrong = new Set(result.error.issues.map((issue) => issue.path[0] as BenchOption));
    throw usage([...wrong].map((option) => problemOf(option, texts)).join('\n'));
  }
  const options = result.data;
  return Object.freeze({ ...options, clients: options.rate === null ? (options.clients ?? CLIENTS_DEFAULT) : null });
}

function problemOf(option: BenchOption, texts: ReadonlyMap<BenchOption, string>): string {
  const flag = BENCH_FLAGS.find(({ key }) => key === option);
  const got = option === 'apiKey' ? '***' : texts.get(option);
  return `--${flag?.name}: got "${got}", allowed: ${allowedForBench(option)}`;
}

/** Commander's complaint in our words. */
function usageError(error: CommanderError, command: Command): CliError {
  const word = /'(.*?)'/.exec(error.message)?.[1] ?? '';
  const names = BENCH_FLAGS.map(({ name }) => `--${name}`);
  if (error.code === 'commander.unknownOption') {
    const near = nearestName(word.split('=')[0], names);
    return usage(`unknown flag ${word}${near ? `; did you mean ${near}?` : ' (bench --help lists the flags)'}`);
  }
  if (error.code === 'commander.optionMissingArgument') {
    const flag = BENCH_FLAGS.find(({ name }) => word.startsWith(`--${name} `));
    if (flag) return usage(`--${flag.name} needs a value: ${allowedForBench(flag.key)}`);
  }
  if (error.code === 'commander.excessArguments')
    return usage(`unexpected word "${command.args[0]}" (the server is named with --url)`);
  return usage(error.message.replace(/^error: /, ''));
}

function usage(message: string): CliError {
  return new CliError(EXIT_USAGE, message);
}
