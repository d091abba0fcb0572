/** Why a request got no whole answer. `kind` groups failures in the results: a status with its code, or a word for what has none. */
export interface ChatFailure {
  kind: string;
  message: string;
}

/** Of a message, as a terminal shows it. */
const MESSAGE_CHARACTERS_MAX = 200;
const CODE = /^[\w.-]{1,40}$/;
export const CONNECTION = 'connection';

/** A reply with a status other than 200. */
export function failureOfStatus(status: number, text: string): ChatFailure {
  const { code, message } = errorWithin(text);
  return { kind: code === null ? String(status) : `${status} ${code}`, message: message ?? short(text) };
}

/** An error in the middle of a stream. */
export function failureOfEvent(error: unknown): ChatFailure {
  const { code, message } = errorFields(error);
  return { kind: code === null ? 'error in stream' : `error in stream: ${code}`, message: message ?? '' };
}

/** `reason`: the system's error code, or a sentence. */
export function unreachable(reason: string): ChatFailure {
  return { kind: CONNECTION, message: short(reason) };
}

/** Whether nobody answered at all. */
export function isUnreachable({ kind }: ChatFailure): boolean {
  return kind === CONNECTION;
}

function errorWithin(text: string): { code: string | null; message: string | null } {
  try {
    return errorFields((JSON.parse(text) as { error?: unknown }).error);
  } catch {
    return { code: null, message: null };
  }
}

/** `code` where it is a word (some servers repeat the status there). */
function errorFields(error: unknown): { code: string | null; message: string | null } {
  if (typeof error === 'string') return { code: null, message: short(error) };
  const { code, message } = (error ?? {}) as { code?: unknown; message?: unknown };
  return {
    code: typeof code === 'string' && CODE.test(code) && !/^\d+$/.test(code) ? code : null,
    message: typeof message === 'string' ? short(message) : null,
  };
}

/** One line without control characters: the text comes from elsewhere and goes to a terminal. */
function short(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
  const line = text.replace(/[\u0000-\u001f\u007f-\u009f]+/g, ' ').trim();
  return line.length <= MESSAGE_CHARACTERS_MAX ? line : `${line.slice(0, MESSAGE_CHARACTERS_MAX - 1)}…`;
}
