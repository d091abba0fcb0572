/**
 * Building blocks of the request schemas. Each knows its range in words, so that every error about it says what is allowed; `null` is
 * the same as absent, as clients send it for what they leave alone.
 */
import { z } from 'zod';
import { PlimsollError } from '../../shared/errors.js';

export function optional<T extends z.ZodType>(type: T) {
  return type.nullish().transform((value) => value ?? undefined);
}

export function number(min: number, max: number) {
  const error = `must be a number from ${min} to ${max}`;
  return z.number({ error }).min(min, { error }).max(max, { error });
}

/** Also refuses numbers with a fraction. */
export function integer(min: number, max: number) {
  const error = `must be an integer from ${min} to ${max}`;
  return z.number({ error }).int({ error }).min(min, { error }).max(max, { error });
}

export function listOf<T extends z.ZodType>(type: T, maxLength: number) {
  const error = `must be an array of at most ${maxLength} elements`;
  return z.array(type, { error }).max(maxLength, { error });
}

export const boolean = z.boolean({ error: 'must be true or false' });

export function text(maxLength: number) {
  const error = `must be a string of at most ${maxLength} characters`;
  return z.string({ error }).max(maxLength, { error });
}

export function oneOf<const T extends readonly [string, ...string[]]>(values: T) {
  return z.enum(values, { error: `must be one of ${values.map((value) => `'${value}'`).join(', ')}` });
}

/** `value` as `schema` has it. @throws PlimsollError invalid_request with the first problem and its field. */
export function parse<T extends z.ZodType>(schema: T, value: unknown): z.output<T> {
  const result = checked(schema, value);
  if (result.success) return result.data;
  const issue = result.error.issues[0];
  const param = paramPath(issue.path);
  if (param === '') throw new PlimsollError('invalid_request', `The request body ${issue.message}.`);
  throw invalidField(param, issue.message);
}

/** Each element that is wrong is an issue of its own, and what is nested is walked by recursion: bodies made for it exceed the stack. */
function checked<T extends z.ZodType>(schema: T, value: unknown): z.ZodSafeParseResult<z.output<T>> {
  try {
    return schema.safeParse(value);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    throw new PlimsollError('invalid_request', 'The request body has too many wrong elements, or is nested too deep.');
  }
}

/** `problem` continues a sentence that begins with the field: "must be …". */
export function invalidField(param: string, problem: string): PlimsollError {
  return new PlimsollError('invalid_request', `Invalid '${param}': ${problem}.`, { param });
}

/** `messages[0].content`, as OpenAI writes it. */
export function paramPath(path: readonly PropertyKey[]): string {
  return path
    .map((part, i) => (typeof part === 'number' ? `[${part}]` : `${i === 0 ? '' : '.'}${String(part)}`))
    .join('');
}
