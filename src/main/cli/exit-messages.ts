/** What a user reads when a command ends early: one line, what is wrong and what to do. Only a bug of ours shows a stack. */
import { ConfigError } from '../../shared/config.js';
import { EngineError, type EngineErrorCode } from '../../shared/engine.js';
import { PlimsollError } from '../../shared/errors.js';
import { ModelError } from '../models/model-error.js';
import { CliError, EXIT_FAILED, EXIT_USAGE } from './cli-error.js';

/** As shells report a program that Ctrl-C ended: 128 + SIGINT. */
const EXIT_CANCELLED = 130;

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
  if (error instanceof PlimsollError) return { exitCode: EXIT_FAILED, text: oneLine(error.message) };
  const system = systemMessage(error, context);
  if (system !== null) return { exitCode: EXIT_FAILED, text: system };
  const stack = error instanceof Error ? (error.stack ?? error.message) : String(error);
  return { exitCode: EXIT_FAILED, text: `this is a bug in Plimsoll, please report it: ${stack}` };
}

function modelMessage(error: ModelError): ExitMessage {
  if (error.code !== 'cancelled') return { exitCode: EXIT_FAILED, text: oneLine(error.message) };
  return { exitCode: EXIT_CANCELLED, text: 'stopped; a download goes on from here the next time' };
}

/** An engine error that came from a worker is a copy without its class. */
function isEngineError(error: unknown): error is { code: EngineErrorCode; message: string } {
  return error instanceof EngineError || (error instanceof Error && error.name === 'EngineError' && 'code' in error);
}

function engineMessage(error: { code: EngineErrorCode; message: string }, { modelPath }: ExitContext): string {
  const model = modelPath ?? 'the model';
  const detail = oneLine(error.message);
  switch (error.code) {
    case 'engine_not_found':
      return `the engine's libraries cannot be loaded: ${detail} (make build installs them; PLIMSOLL_ENGINE_DIR points at others)`;
    case 'model_not_found':
      return `there is no model file ${model}`;
    case 'model_invalid':
      return `${model} is damaged or incomplete: ${detail} (download it again)`;
    case 'model_unsupported':
      return `${model} is of a kind that this engine cannot run: ${detail}`;
    case 'out_of_memory':
      return `there is not enough memory for ${model}: ${detail} (a smaller --context-length or --max-running-requests, or a smaller quantization, needs less)`;
    case 'cancelled':
      return 'stopped';
    case 'invalid_argument':
    case 'invalid_record':
    case 'wrong_state':
    case 'failed':
      return `the engine failed: ${detail}`;
  }
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
