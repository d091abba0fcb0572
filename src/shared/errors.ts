/**
 * Every error that a client or user can see: one table of stable codes (docs/errors.md has a line for each).
 * `status` is the HTTP status; `type` is OpenAI's error type; `retryAfterSeconds` sets Retry-After.
 */
export interface ErrorEntry {
  status: number;
  type: string;
  /** SDKs retry 408, 409, 429 and 5xx: false tells them not to (x-should-retry). */
  retry: boolean;
}

export const ERRORS = {
  invalid_request: { status: 400, type: 'invalid_request_error', retry: false },
  context_length_exceeded: { status: 400, type: 'invalid_request_error', retry: false },
  invalid_api_key: { status: 401, type: 'authentication_error', retry: false },
  model_not_found: { status: 404, type: 'invalid_request_error', retry: false },
  not_found: { status: 404, type: 'invalid_request_error', retry: false },
  method_not_allowed: { status: 405, type: 'invalid_request_error', retry: false },
  request_timeout: { status: 408, type: 'invalid_request_error', retry: true },
  request_too_large: { status: 413, type: 'invalid_request_error', retry: false },
  unsupported_media_type: { status: 415, type: 'invalid_request_error', retry: false },
  queue_full: { status: 429, type: 'rate_limit_error', retry: true },
  rate_limited: { status: 429, type: 'rate_limit_error', retry: true },
  insufficient_memory: { status: 503, type: 'server_error', retry: true },
  loading: { status: 503, type: 'server_error', retry: true },
  draining: { status: 503, type: 'server_error', retry: true },
  internal: { status: 500, type: 'server_error', retry: true },
} as const satisfies Record<string, ErrorEntry>;

export type ErrorCode = keyof typeof ERRORS;

/** An error from the table. `param` names the request's field; `retryAfterSeconds` goes out as Retry-After. */
export class PlimsollError extends Error {
  readonly param: string | null;
  readonly retryAfterSeconds: number | null;

  constructor(
    readonly code: ErrorCode,
    message: string,
    options: { param?: string; retryAfterSeconds?: number; cause?: unknown } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'PlimsollError';
    this.param = options.param ?? null;
    this.retryAfterSeconds = options.retryAfterSeconds ?? null;
  }

  get entry(): ErrorEntry {
    return ERRORS[this.code];
  }
}
