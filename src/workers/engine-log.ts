import type { Engine } from '../shared/engine.js';
import type { WorkerLogLevel } from './worker-messages.js';

/** ggml's levels. */
const WARNING = 3;
const ERROR = 4;
/** Warnings and errors of one drain that are told as such; an engine that complains of every tensor must not bury the log. Chosen. */
const PROBLEMS_MAX = 20;

/**
 * Hands on what the engine has logged: warnings and errors as such, all else for debugging. Called when there is time, because the engine
 * itself holds the lines, bounded, until then.
 */
export function drainEngineLog(
  engine: Pick<Engine, 'drainLogs'>,
  report: (level: WorkerLogLevel, message: string) => void,
): void {
  const { lines, dropped } = engine.drainLogs();
  if (dropped > 0) report('debug', `engine: ${dropped} earlier lines were lost, nobody had time to take them`);
  let problems = 0;
  for (const { level, text } of lines) {
    const isProblem = level >= WARNING && ++problems <= PROBLEMS_MAX;
    report(!isProblem ? 'debug' : level >= ERROR ? 'error' : 'warn', `engine: ${text.trim()}`);
  }
  if (problems > PROBLEMS_MAX)
    report('warn', `engine: ${problems - PROBLEMS_MAX} more warnings and errors (--log-level debug)`);
}
