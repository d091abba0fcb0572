import { ModelError } from './model-error.js';

/** A short reason: the system's or the client's error code. */
export function networkReason(error: unknown): string {
  const { code, message, cause } = error as { code?: string; message?: string; cause?: unknown };
  if (code === 'UND_ERR_CONNECT_TIMEOUT' || code === 'UND_ERR_HEADERS_TIMEOUT') return 'no answer in time';
  return code ?? (cause ? networkReason(cause) : (message ?? String(error)));
}

/** An error of the network that slipped through as it is, in one line. */
export function asModelError(error: unknown, signal: AbortSignal | undefined): unknown {
  if (signal?.aborted) return new ModelError('cancelled', 'cancelled');
  const { name, code } = error as { name?: string; code?: string };
  const isNetwork = name === 'AbortError' || name === 'SocketError' || /^UND_ERR_|^ECONN/.test(code ?? '');
  return isNetwork
    ? new ModelError('unreachable', `the network failed (${networkReason(error)})`, { cause: error })
    : error;
}
