/** One commander Command for each command. A further command is one more entry of COMMANDS and one more action in run.ts. */
import { type Command, Option } from 'commander';
import { parseConfig } from '../../shared/config.js';
import { DOCTOR_FLAGS, environmentName, FLAG_GROUPS, FLAGS, type Flag, PLAN_FLAGS } from './flags.js';
import { throwingCommand } from './throwing-command.js';

export interface CommandEntry {
  summary: string;
  /** Flags it takes. */
  flags: readonly Flag[];
  /** Name of its one argument, where it has one: it becomes the setting `model`. */
  argument: string | null;
  /** Answers with JSON where `--json` is given. */
  hasJson: boolean;
}

export const COMMANDS = {
  serve: { summary: 'serve a model over HTTP (the default)', flags: FLAGS, argument: null, hasJson: false },
  pull: { summary: 'download a model and print its path', flags: [], argument: 'model', hasJson: false },
  plan: { summary: 'what would fit, here or on another machine', flags: PLAN_FLAGS, argument: null, hasJson: true },
  doctor: {
    summary: 'what this machine offers, and what is wrong',
    flags: DOCTOR_FLAGS,
    argument: null,
    hasJson: true,
  },
} as const satisfies Record<string, CommandEntry>;

/** Commands of other servers than this one: they take none of the settings, and read their flags themselves. */
export const CLIENT_COMMANDS: Readonly<Record<string, string>> = {
  bench: 'measure a server: latency, throughput, goodput',
};

export type CommandName = keyof typeof COMMANDS;

export function isCommandName(word: string | undefined): word is CommandName {
  return word !== undefined && Object.hasOwn(COMMANDS, word);
}

/** The commander option of a flag, grouped and with its default in the help. */
export function optionOf(flag: Flag): Option {
  const short = flag.aliases?.find((alias) => /^-[a-z]$/.test(alias));
  const long = flag.value === null ? `--${flag.name}` : `--${flag.name} <${flag.value}>`;
  const option = new Option(short ? `${short}, ${long}` : long, flag.help + defaultOf(flag)).helpGroup(
    `${flag.group}:`,
  );
  if (flag.repeatable) option.argParser((text: string, before?: string[]) => [...(before ?? []), text]);
  return option;
}

/** The named command with its flags (throwing-command.ts). */
export function buildCommand(name: CommandName, write: (text: string) => void): Command {
  const entry: CommandEntry = COMMANDS[name];
  const isServe = name === 'serve';
  const command = throwingCommand(
    isServe ? 'plimsoll' : `plimsoll ${name}`,
    isServe ? 'Serves a language model on this machine, within its memory.' : entry.summary,
    write,
  );
  if (entry.argument) command.argument(`<${entry.argument}>`, 'hf:owner/repo[:quant] or a built-in name');
  for (const group of FLAG_GROUPS) {
    for (const flag of entry.flags) if (flag.group === group) command.addOption(optionOf(flag));
  }
  if (entry.hasJson) command.option('--json', 'answer in JSON, for programs');
  if (name === 'serve') {
    command.usage('[command] [flags]').addHelpText('after', `\n${commandList()}\n\n${environmentHint()}`);
  }
  return command;
}

function defaultOf(flag: Flag): string {
  const value = parseConfig()[flag.key];
  if (flag.value === null || value === null || value === 'auto' || typeof value === 'object' || value === -1) return '';
  return ` (${flag.value === 'seconds' ? Number(value) / 1000 : value})`;
}

function commandList(): string {
  const lines = Object.entries(COMMANDS).map(([name, entry]) => {
    const argument = entry.argument ? ` <${entry.argument}>` : '';
    return `  ${(name + argument).padEnd(16)}${entry.summary}`;
  });
  const others = Object.entries(CLIENT_COMMANDS).map(([name, summary]) => `  ${name.padEnd(16)}${summary}`);
  return ['Commands:', ...lines, ...others, `  ${'--version'.padEnd(16)}print the version`].join('\n');
}

function environmentHint(): string {
  const example = environmentName(FLAGS.find((flag) => flag.key === 'maxRunningRequests')!);
  return `Every flag has an environment variable, which it overrides: ${example}=4.`;
}
