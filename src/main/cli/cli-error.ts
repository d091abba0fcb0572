/** Exit codes of the command line: a mistake in the command, and a command that could not be done. */
export const EXIT_USAGE = 2;
export const EXIT_FAILED = 1;
/** As shells report a program that Ctrl-C ended: 128 + SIGINT. */
export const EXIT_CANCELLED = 130;

/** Ends the program with its message on stderr, one line where it can be, and no stack trace. */
export class CliError extends Error {
  constructor(
    readonly exitCode: number,
    message: string,
    options?: { cause?: unknown },
  ) {
    super(message, options);
    this.name = 'CliError';
  }
}
