import type { ChatBody } from './chat-schema.js';
import { invalidField } from './fields.js';

/**
 * The grammar that a request's reply must follow, GBNF; empty: none. The one place where a response format becomes a grammar.
 * It fails closed: what cannot be held is a 400, never free text with a 200.
 * @throws PlimsollError invalid_request.
 */
export function grammarOf(body: ChatBody): string {
  const type = body.response_format?.type ?? 'text';
  if (type !== 'text') throw invalidField('response_format.type', `'${type}' is not supported: only 'text' is`);
  return body.grammar ?? '';
}
