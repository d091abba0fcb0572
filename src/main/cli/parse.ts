/** From the words of a command line and the environment to settings. Pure: reads nothing else and writes nothing. */
import { type Command, CommanderError } from 'commander';
import {
  allowedValues,
  type Config,
  ConfigError,
  type ConfigInput,
  type ConfigKey,
  describeProblem,
  parseConfig,
} from '../../shared/config.js';
import { packageVersion } from '../package-root.js';
import { CliError, EXIT_USAGE } from './cli-error.js';
import {
  buildCommand,
  CLIENT_COMMANDS,
  COMMANDS,
  type CommandEntry,
  type CommandName,
  isCommandName,
  optionOf,
} from './commands.js';
import { readSwitch } from './flag-values.js';
import { environmentName, FLAGS, type Flag, FOREIGN_FLAGS, flagOf } from './flags.js';
import { nearestName } from './nearest.js';

export type Environment = Readonly<Record<string, string | undefined>>;

/** `print`: text for stdout and nothing else to do (help, version). */
export type CliCommand =
  | { command: Exclude<CommandName, AnsweringCommand>; config: Config }
  | { command: AnsweringCommand; config: Config; json: boolean }
  | { command: 'print'; text: string };

/** Commands that answer with text or JSON. */
export type AnsweringCommand = 'plan' | 'doctor';

/** Where a setting came from: the name and the text that an error message shows. */
type Sources = Map<ConfigKey, { name: string; text: string }>;

/**
 * @param argv the words after the program's name.
 * @throws CliError (exit code 2) with one line for each problem.
 */
export function parseCli(argv: readonly string[], env: Environment): CliCommand {
  if (argv[0] === '--version' || argv[0] === '-V') return { command: 'print', text: `plimsoll ${packageVersion}\n` };
  const name = isCommandName(argv[0]) ? argv[0] : 'serve';
  const words = isCommandName(argv[0]) ? argv.slice(1) : argv;
  const entry: CommandEntry = COMMANDS[name];

  let help = '';
  const command = buildCommand(name, (text) => {
    help += text;
  });
  try {
    command.parse(canonicalWords(words, entry.flags), { from: 'user' });
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    if (error.code === 'commander.helpDisplayed') return { command: 'print', text: help };
    throw usageError(error, command, entry);
  }

  const sources: Sources = new Map();
  const input: Record<string, unknown> = {};
  for (const flag of entry.flags) readFlag(flag, command, env, input, sources);
  if (entry.argument) input.model = command.args[0];
  const config = checked(input as ConfigInput, sources);
  if (name === 'plan' || name === 'doctor')
    return { command: name, config, json: command.getOptionValue('json') === true };
  return { command: name, config };
}

/** Replaces aliases by the flag's own name, and refuses flags of other servers that only nearly mean the same. */
function canonicalWords(words: readonly string[], flags: readonly Flag[]): string[] {
  const canonical = new Map(flags.flatMap((flag) => (flag.aliases ?? []).map((alias) => [alias, `--${flag.name}`])));
  return words.map((word) => {
    const [flag, ...rest] = word.split('=');
    if (Object.hasOwn(FOREIGN_FLAGS, flag)) throw usage(`${flag} is not a flag here: use ${FOREIGN_FLAGS[flag]}`);
    const own = canonical.get(flag);
    return own === undefined ? word : [own, ...rest].join('=');
  });
}

/** A flag's value from the command line, else from the environment, into `input`. */
function readFlag(
  flag: Flag,
  command: Command,
  env: Environment,
  input: Record<string, unknown>,
  sources: Sources,
): void {
  const attribute = optionOf(flag).attributeName();
  if (command.getOptionValueSource(attribute) === 'cli') {
    if (flag.value === null) {
      input[flag.key] = flag.sets ?? true;
      return;
    }
    const texts: string[] = [command.getOptionValue(attribute)].flat();
    sources.set(flag.key, { name: `--${flag.name}`, text: texts.join(',') });
    input[flag.key] = flag.repeatable ? texts.flatMap((text) => flag.read(text)) : flag.read(texts[0]);
    return;
  }
  const text = env[environmentName(flag)];
  if (text === undefined || text === '') return;
  sources.set(flag.key, { name: environmentName(flag), text });
  const value = flag.value === null ? readSwitch(text) : flag.read(text);
  // A switch such as --no-warmup sets its setting to false: true in the environment means that the switch is on.
  input[flag.key] = flag.sets === false && typeof value === 'boolean' ? !value : value;
}

function checked(input: ConfigInput, sources: Sources): Config {
  try {
    return parseConfig(input);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    const nameOf = (key: ConfigKey) => sources.get(key)?.name ?? flagOf(key);
    const gotOf = (got: unknown, key: ConfigKey) => `"${shown(sources.get(key)?.text ?? String(got), key)}"`;
    throw usage(error.problems.map((problem) => describeProblem(problem, nameOf, gotOf)).join('\n'));
  }
}

/** What was typed, unless it is a secret: terminals and logs keep what they show. */
function shown(text: string, key: ConfigKey): string {
  return key === 'apiKeys' ? '***' : text;
}

/** Commander's complaint in our words. */
function usageError(error: CommanderError, command: Command, entry: CommandEntry): CliError {
  const word = /'(.*?)'/.exec(error.message)?.[1] ?? '';
  switch (error.code) {
    case 'commander.unknownOption':
      return unknownFlag(word, entry);
    case 'commander.optionMissingArgument': {
      const flag = FLAGS.find(({ name }) => word.split(/[ ,]+/).includes(`--${name}`));
      return usage(flag ? `--${flag.name} needs a value: ${allowedValues(flag.key)}` : error.message);
    }
    case 'commander.missingArgument':
      return usage(`${command.name()} needs a ${entry.argument}`);
    case 'commander.excessArguments':
      return unexpectedWord(command.args[entry.argument ? 1 : 0] ?? '');
    default:
      return usage(error.message.replace(/^error: /, ''));
  }
}

function unknownFlag(word: string, entry: CommandEntry): CliError {
  const [typed] = word.split('=');
  const names = [...entry.flags.map((flag) => `--${flag.name}`), ...(entry.hasJson ? ['--json'] : [])];
  if (names.includes(typed)) return usage(`${typed} takes no value`);
  const near = nearestName(typed, names);
  return usage(`unknown flag ${typed}${near ? `; did you mean ${near}?` : ' (--help lists the flags)'}`);
}

function unexpectedWord(word: string): CliError {
  const near = nearestName(word, [...Object.keys(COMMANDS), ...Object.keys(CLIENT_COMMANDS)]);
  if (near) return usage(`unknown command ${word}; did you mean ${near}?`);
  return usage(`unexpected word "${word}" (a model is named with --model)`);
}

function usage(message: string): CliError {
  return new CliError(EXIT_USAGE, message);
}
