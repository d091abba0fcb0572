import { type ContextSpec, EngineError } from '../shared/engine.js';

/** What the fake engine refuses, as the addon does. @throws EngineError invalid_argument. */
export function checkSpec(spec: ContextSpec): void {
  for (const name of ['sequences', 'cells', 'batchTokens', 'ubatchTokens', 'threads', 'promptThreads'] as const) {
    if (!Number.isInteger(spec[name]) || spec[name] < 1) {
      throw new EngineError('invalid_argument', `${name} must be a positive integer, got ${spec[name]}`);
    }
  }
  if (spec.ubatchTokens > spec.batchTokens) {
    throw new EngineError(
      'invalid_argument',
      `ubatchTokens ${spec.ubatchTokens} exceed batchTokens ${spec.batchTokens}`,
    );
  }
  if (spec.batchTokens < spec.sequences) {
    throw new EngineError(
      'invalid_argument',
      `batchTokens ${spec.batchTokens} are fewer than ${spec.sequences} sequences`,
    );
  }
}

/** A record that would trip an assertion inside a real engine. */
export function invalid(message: string): EngineError {
  return new EngineError('invalid_record', message);
}
