import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify';
import { ERRORS, type ErrorEntry, PlimsollError } from '../../shared/errors.js';

/** Seconds a client should wait where the error does not know better. Chosen: a queue moves in a second, a model loads in some. */
const RETRY_AFTER_SECONDS: Partial<Record<PlimsollError['code'], number>> = {
  queue_full: 1,
  rate_limited: 1,
  insufficient_memory: 5,
  loading: 5,
  draining: 10,
};

export interface ErrorBody {
  error: { message: string; type: string; param: string | null; code: string };
}

export function errorBody(error: PlimsollError): ErrorBody {
  return { error: { message: error.message, type: error.entry.type, param: error.param, code: error.code } };
}

/** Retry-After where waiting helps, and a word to the SDKs where their habit of retrying does not. */
export function errorHeaders(error: PlimsollError): Record<string, string> {
  const entry: ErrorEntry = error.entry;
  const headers: Record<string, string> = {};
  const seconds = error.retryAfterSeconds ?? RETRY_AFTER_SECONDS[error.code];
  if (entry.retry && seconds !== undefined) headers['retry-after'] = String(Math.ceil(seconds));
  const sdksRetry = entry.status >= 500 || [408, 409, 429].includes(entry.status);
  if (sdksRetry && !entry.retry) headers['x-should-retry'] = 'false';
  return headers;
}

/** Sends `error`, whatever it is. What is not from the table is our fault: the details go to the log, the request id to the client. */
export function sendError(reply: FastifyReply, error: PlimsollError): FastifyReply {
  return reply
    .code(error.entry.status)
    .headers(errorHeaders(error))
    .type('application/json; charset=utf-8')
    .send(errorBody(error));
}

/** Every error as one of the table's. */
export function toPlimsollError(error: unknown, request: FastifyRequest): PlimsollError {
  if (error instanceof PlimsollError) return error;
  const known = fromFastify(error as FastifyError);
  if (known !== null) return known;
  request.log.error({ err: error }, 'request failed');
  return new PlimsollError('internal', `Internal error. The request id is ${request.id}.`, { cause: error });
}

/** The framework's errors about a request that never reached a handler. */
function fromFastify(error: FastifyError): PlimsollError | null {
  switch (error.code) {
    case 'FST_ERR_CTP_BODY_TOO_LARGE':
      return new PlimsollError('request_too_large', 'The request body is too large.');
    case 'FST_ERR_CTP_INVALID_MEDIA_TYPE':
      return new PlimsollError('unsupported_media_type', 'The request body must be application/json.');
    case 'FST_ERR_CTP_EMPTY_JSON_BODY':
    case 'FST_ERR_CTP_INVALID_JSON_BODY':
      return new PlimsollError('invalid_request', 'The request body is not valid JSON.');
    default:
      break;
  }
  // Only the framework makes errors with a status of their own, all before a handler runs; a 5xx of theirs is ours.
  const isClientFault = typeof error.statusCode === 'number' && error.statusCode >= 400 && error.statusCode < 500;
  return isClientFault ? new PlimsollError('invalid_request', 'The request is malformed.') : null;
}

/** A reply for a connection on which no request could be read: there is no Fastify reply to send it with. */
export function rawErrorReply(error: PlimsollError, requestId: string): string {
  const body = JSON.stringify(errorBody(error));
  const { status } = ERRORS[error.code];
  return [
    `HTTP/1.1 ${status} ${status === 408 ? 'Request Timeout' : 'Bad Request'}`,
    'content-type: application/json; charset=utf-8',
    `content-length: ${Buffer.byteLength(body)}`,
    `x-request-id: ${requestId}`,
    'connection: close',
    '',
    body,
  ].join('\r\n');
}
