/**
 * The parent of a supervised server. It stays small and alive, so it loads nothing but what is in this folder and in Node.js: what the
 * flags mean is checked by the server process, whose exit code is this one's.
 */
import { readSwitch } from '../cli/flag-values.js';
import { SUPERVISED_MARK } from './protocol.js';
import { Supervisor } from './supervisor.js';
import { SupervisorLog } from './supervisor-log.js';

/** Words with which a command line only tells something. */
const TELLING_WORDS: ReadonlySet<string> = new Set(['--help', '-h', '--version', '-V']);

/** Whether these words of a command line serve. */
export function serves(argv: readonly string[]): boolean {
  const [command] = argv;
  if (command !== undefined && command !== 'serve' && !command.startsWith('-')) return false;
  return !argv.some((word) => TELLING_WORDS.has(word));
}

/** Whether these words of a command line serve, and in a process of its own. */
export function wantsSupervisor(argv: readonly string[], env: Readonly<Record<string, string | undefined>>): boolean {
  if (env[SUPERVISED_MARK] !== undefined && process.send !== undefined) return false;
  return serves(argv) && !argv.includes('--no-supervisor') && readSwitch(env.PLIMSOLL_NO_SUPERVISOR ?? '') !== true;
}

/** Runs the program `entry` as a supervised server. Resolves with the exit code. */
export async function supervise(entry: string, argv: readonly string[]): Promise<number> {
  const supervisor = new Supervisor({
    command: [process.execPath, ...process.execArgv, entry, ...argv],
    log: new SupervisorLog(process.stderr.isTTY === true),
  });
  const onSignal = () => supervisor.stop();
  process.on('SIGINT', onSignal);
  process.on('SIGTERM', onSignal);
  return supervisor.run();
}
