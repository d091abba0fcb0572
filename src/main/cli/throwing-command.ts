import { Command } from 'commander';

/** A command that throws instead of ending the process, and that writes its help into `write`. */
export function throwingCommand(name: string, description: string, write: (text: string) => void): Command {
  return new Command(name)
    .description(description)
    .exitOverride()
    .configureOutput({ writeOut: write, writeErr: () => {} })
    .configureHelp({ sortOptions: false })
    .showSuggestionAfterError(false)
    .allowExcessArguments(false)
    .helpOption('-h, --help', 'show this help');
}
