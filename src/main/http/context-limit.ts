import { PlimsollError } from '../../shared/errors.js';
import { invalidField } from './fields.js';

/**
 * Output tokens that a prompt leaves room for, or that were asked for.
 * @throws PlimsollError context_length_exceeded when prompt and output do not fit; clients look for both phrases of its message.
 */
export function outputLimit(
  promptTokens: number,
  asked: number | undefined,
  contextTokens: number,
  promptParam: string,
): number {
  if (promptTokens === 0) throw invalidField(promptParam, 'must give at least one token');
  const room = contextTokens - promptTokens;
  const wanted = asked === undefined || asked === -1 ? Math.max(1, room) : asked;
  if (wanted <= room) return wanted;
  const total = promptTokens + wanted;
  throw new PlimsollError(
    'context_length_exceeded',
    `This model's maximum context length is ${contextTokens} tokens, but ${total} were requested: ` +
      `${promptTokens} in the prompt and ${wanted} for the output. The request exceeds the available context size.`,
    { param: promptParam },
  );
}
