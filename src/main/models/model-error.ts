/** Why a model is not there. `unreachable` covers everything that another try or another source may cure. */
export type ModelErrorCode =
  | 'not_found'
  | 'invalid_file'
  | 'invalid_name'
  | 'unauthorized'
  | 'unreachable'
  | 'checksum'
  | 'no_space'
  | 'offline'
  | 'no_python'
  | 'cancelled';

/** A model that cannot be had. The message is one line for the user and says what to do where something can be done. */
export class ModelError extends Error {
  constructor(
    readonly code: ModelErrorCode,
    message: string,
    options?: { cause?: unknown },
  ) {
    super(message, options);
    this.name = 'ModelError';
  }
}

/** Throws `cancelled` once the signal is raised. */
export function throwIfCancelled(signal: AbortSignal | undefined): void {
  if (signal?.aborted) throw new ModelError('cancelled', 'cancelled');
}
