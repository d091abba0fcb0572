import type { Refusal } from '../shared/memory/plan-types.js';

/** The pipeline could not start: EngineError codes, `refused`, or `failed`. */
export class StartError extends Error {
  constructor(
    readonly code: string,
    message: string,
    readonly refusal: Refusal | null = null,
  ) {
    super(message);
    this.name = 'StartError';
  }

  static refused(refusal: Refusal): StartError {
    return new StartError('refused', refusal.sentence, refusal);
  }
}
