/** What a user reads when a command ends early: one line, what is wrong and what to do. A refused plan shows its arithmetic, a bug of ours a stack. */
import { ConfigError } from '../../shared/config.js';
import { EngineError, type EngineErrorCode } from '../../shared/engine.js';
import { PlimsollError } from '../../shared/errors.js';
import { refusalText } from '../../shared/memory/plan-text.js';
import { ModelError } from '../models/model-error.js';
import { StartError } from '../start-error.js';
import { CliError, EXIT_CANCELLED, EXIT_FAILED, EXIT_USAGE } from './cli-error.js';

export interface ExitMessage {
  exitCode: number;
  /** For stderr, without the program's name and the last line feed. */
  text: string;
}

/** What was being done, for the words that an error does not carry itself. */
export interface ExitContext {
  modelPath?: string;
  host?: string;
  port?: number;
}

export function exitMessage(error: unknown, context: ExitContext = {}): ExitMessage {
  if (error instanceof CliError) return { exitCode: error.exitCode, text: error.message };
  if (error instanceof ConfigError) return { exitCode: EXIT_USAGE, text: error.message };
  if (error instanceof ModelError) return modelMessage(error);
  if (isEngineError(error)) return { exitCode: EXIT_FAILED, text: engineMessage(error, context) };
  // The one message of several lines: its arithmetic is what a user needs to choose what to change.
  if (error instanceof StartError && error.refusal !== null)
    return { exitCode: EXIT_FAILED, text: refusalText(error.refusal) };
  if (error instanceof PlimsollError || error instanceof StartError)
    return { exitCode: EXIT_FAILED, text: oneLine(error.message) };
  const system = systemMessage(error, context);
  if (system !== null) return { exitCode: EXIT_FAILED, text: system };
  const stack = error instanceof Error ? (error.stack ?? error.message) : String(error);
  return { exitCode: EXIT_FAILED, text: `this is a bug in Plimsoll, please report it: ${stack}` };
}

function modelMessage(error: ModelError): ExitMessage {
  if (error.code !== 'cancelled') return { exitCode: EXIT_FAILED, text: oneLine(error.message) };
  return { exitCode: EXIT_CANCELLED, text: 'stopped; a download goes on from here the next time' };
}

/** Engine errors come as they are, as copies without their class (from a worker), or with their code as a StartError. */
function isEngineError(error: unknown): error is { code: EngineErrorCode; message: string } {
  if (error instanceof EngineError) return true;
  if (!(error instanceof Error) || !('code' in error)) return false;
  const isCarrier = error.name === 'EngineError' || error instanceof StartError;
  return isCarrier && Object.hasOwn(REMEDIES, String(error.code));
}

/** What to say before and after the engine's own words. */
const REMEDIES: Record<EngineErrorCode, { what: string; remedy: string }> = {
  engine_not_found: {
    what: "the engine's libraries",
    remedy: 'make build installs them; PLIMSOLL_ENGINE_DIR points at others',
  },
  model_not_found: { what: '', remedy: '' },
  model_invalid: { what: 'cannot be loaded', remedy: 'damaged or incomplete: download it again' },
  model_unsupported: { what: 'is of a kind that this engine cannot run', remedy: '' },
  out_of_memory: {
    what: 'does not fit into memory',
    remedy: 'a smaller --context-length or --max-running-requests, or a smaller quantization, needs less',
  },
  cancelled: { what: '', remedy: '' },
  invalid_argument: { what: 'the engine failed', remedy: '' },
  invalid_record: { what: 'the engine failed', remedy: '' },
  wrong_state: { what: 'the engine failed', remedy: '' },
  failed: { what: 'the engine failed', remedy: '' },
};

function engineMessage(error: { code: EngineErrorCode; message: string }, { modelPath }: ExitContext): string {
  if (error.code === 'cancelled') return 'stopped';
  const detail = oneLine(error.message);
  const { what, remedy } = REMEDIES[error.code];
  const isAboutModel = error.code.startsWith('model_') || error.code === 'out_of_memory';
  // The engine often names the file itself; else the file is what a user recognizes the trouble by.
  const needsName = isAboutModel && modelPath !== undefined && !detail.includes(modelPath);
  const subject = needsName
    ? `${modelPath}${what ? ` ${what}` : ''}: `
    : isAboutModel || what === ''
      ? ''
      : `${what}: `;
  return `${subject}${detail}${remedy ? ` (${remedy})` : ''}`;
}

function systemMessage(error: unknown, context: ExitContext): string | null {
  if (!(error instanceof Error) || !('code' in error)) return null;
  const { code, syscall, path, address, port } = error as NodeJS.ErrnoException & { address?: string; port?: number };
  const host = address ?? context.host ?? '127.0.0.1';
  const place = `${host}:${port ?? context.port ?? ''}`;
  switch (code) {
    case 'EADDRINUSE':
      return `${place} is in use by another program: stop it, or choose another port with --port`;
    case 'EADDRNOTAVAIL':
      return `${host} is no address of this machine: choose one with --host`;
    case 'EACCES':
    case 'EPERM':
      if (syscall === 'listen') return `this user may not listen on ${place}: choose a port above 1023 with --port`;
      return `${path ?? 'a file'} may not be used by this user (${code})`;
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return `the host name ${(error as { hostname?: string }).hostname ?? host} is not known: check --host`;
    case 'ENOENT':
      return `there is no file ${path ?? ''}`.trimEnd();
    case 'ENOSPC':
    case 'EDQUOT':
      return 'the disk is full (PLIMSOLL_CACHE_DIR moves the cache)';
    case 'EROFS':
      return `${path ?? 'the cache folder'} cannot be written: its file system is read-only (PLIMSOLL_CACHE_DIR moves the cache)`;
    case 'EMFILE':
    case 'ENFILE':
      return 'too many files are open: raise the limit with ulimit -n';
    default:
      return null;
  }
}

function oneLine(text: string): string {
  return text.replace(/\s*\n\s*/g, ' ').trim();
}
