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
    if (argv[0] === 'bench') {
      const { runBench } = await import('../bench-command/run-bench.js');
      return await untilStopped((stop) => runBench(argv.slice(1), { env, streams, stop }));
    }
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

/** A download stops where it is; what is here stays for the next time. */
function pull(model: string, env: Environment, streams: CliStreams): Promise<string> {
  return untilStopped((signal) => fetchModel(model, streams.stderr, { env, signal, refresh: true }));
}

/** Runs a job with a signal that Ctrl-C or a polite kill aborts. The second one ends the process at once. */
async function untilStopped<T>(job: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const stop = new AbortController();
  const onSignal = () => {
    process.off('SIGINT', onSignal);
    process.off('SIGTERM', onSignal);
    stop.abort();
  };
  process.on('SIGINT', onSignal);
  process.on('SIGTERM', onSignal);
  try {
    return await job(stop.signal);
  } finally {
    process.off('SIGINT', onSignal);
    process.off('SIGTERM', onSignal);
  }
}
