import { PlimsollError } from '../shared/errors.js';
import { FINISH_CODE } from '../shared/token-wire.js';

/** The client's error for a request that the scheduler ended (FINISH_CODE). */
export function finishError(code: number): PlimsollError {
  switch (code) {
    case FINISH_CODE.insufficientMemory:
      return new PlimsollError(
        'insufficient_memory',
        'no memory became free for this request in time; try again later',
        {
          retryAfterSeconds: 5,
        },
      );
    case FINISH_CODE.neverFits:
      return new PlimsollError(
        'context_length_exceeded',
        'the request exceeds the available context size of this server',
        {
          param: 'messages',
        },
      );
    case FINISH_CODE.queueFull:
      return new PlimsollError('queue_full', 'the queue is full; try again later', { retryAfterSeconds: 1 });
    case FINISH_CODE.draining:
      return new PlimsollError('draining', 'the server is shutting down', { retryAfterSeconds: 10 });
    default:
      return new PlimsollError('internal', 'the engine failed on this request and it could not be computed again');
  }
}
