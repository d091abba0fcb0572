/** The command line as a program: runs one command and says how it ended. */
import type { Config } from '../../shared/config.js';
import { withKeysFromFile } from './api-keys.js';
import { type ExitContext, exitMessage } from './exit-messages.js';
import { type Environment, parseCli } from './parse.js';
import type { Output } from './progress-reporter.js';
import { fetchModel } from './pull.js';

export interface CliActions {
  /** Serves until it is told to stop; resolves with the exit code. May add to `context` what its errors are about. */
  serve(config: Config, context: ExitContext): Promise<number>;
}

export interface CliStreams {
  stdout: Output;
  stderr: Output;
}

/** How a command that answers is asked. */
export interface AnswerOptions {
  json: boolean;
  env: Environment;
  streams: CliStreams;
}

/**
 * Runs what `argv` (the words after the program's name) says. Never throws: errors become lines on stderr.
 * @returns the exit code: 0 done, 1 it could not be done, 2 the command is wrong, 130 stopped by Ctrl-C.
 */
export async function runCli(
  argv: readonly string[],
  env: Environment,
  actions: CliActions,
  streams: CliStreams = process,
): Promise<number> {
  const context: ExitContext = {};
  try {
    const parsed = parseCli(argv, env);
    switch (parsed.command) {
      case 'print':
        streams.stdout.write(parsed.text);
        return 0;
      case 'pull':
        streams.stdout.write(`${await pull(parsed.config.model, env, streams)}\n`);
        return 0;
      case 'plan': {
        const { runPlan } = await import('./plan.js');
        return await runPlan(parsed.config, { json: parsed.json, env, streams });
      }
      case 'doctor': {
        const { runDoctor } = await import('./doctor.js');
        return await runDoctor(parsed.config, { json: parsed.json, env, streams });
      }
      case 'serve': {
        const config = await withKeysFromFile(parsed.config);
        context.host = config.host;
        context.port = config.port;
        return await actions.serve(config, context);
      }
    }
  } catch (error) {
    const { exitCode, text } = exitMessage(error, context);
    streams.stderr.write(`${text.replace(/^/gm, (_, at) => (at === 0 ? 'plimsoll: ' : '  '))}\n`);
    return exitCode;
  }
}

/** Ctrl-C and a polite kill stop the download where it is; what is here stays for the next time. */
async function pull(model: string, env: Environment, streams: CliStreams): Promise<string> {
  const stop = new AbortController();
  const onSignal = () => stop.abort();
  process.once('SIGINT', onSignal);
  process.once('SIGTERM', onSignal);
  try {
    return await fetchModel(model, streams.stderr, { env, signal: stop.signal, refresh: true });
  } finally {
    process.off('SIGINT', onSignal);
    process.off('SIGTERM', onSignal);
  }
}
