import { z } from 'zod';
import { TOP_LOGPROBS_MAX } from '../../shared/sampling-wire.js';
import { boolean, integer, invalidField, optional } from './fields.js';
import type { HttpConfig } from './http-config.js';
import { samplingFields } from './sampling-fields.js';

/** A text or its tokens. */
export type Prompt = string | number[];

/** OpenAI's four forms, as a list of prompts. */
function prompts(promptsMax: number) {
  const error = `must be a string, an array of strings, an array of token ids, or an array of such arrays: 1 to ${promptsMax} prompts`;
  return z.unknown().transform((value, context): Prompt[] => {
    const list = promptList(value);
    if (list !== null && list.length >= 1 && list.length <= promptsMax) return list;
    context.addIssue({ code: 'custom', message: error });
    return z.NEVER;
  });
}

export function completionSchema(config: HttpConfig) {
  return z.object(
    {
      ...samplingFields(config),
      prompt: prompts(config.promptsMax),
      logprobs: optional(integer(0, TOP_LOGPROBS_MAX)),
      echo: optional(boolean),
      suffix: optional(z.string({ error: 'must be a string' })),
      best_of: optional(integer(1, config.choicesMax)),
    },
    { error: 'must be a JSON object' },
  );
}

export type CompletionBody = z.output<ReturnType<typeof completionSchema>>;

/** @throws PlimsollError invalid_request for what cannot be done, by name. */
export function refuseUnsupportedCompletion(body: CompletionBody, choicesMax: number, vocabularySize: number): void {
  const count = body.n ?? 1;
  if (body.suffix) throw invalidField('suffix', 'inserting text is not supported');
  if (body.best_of !== undefined && body.best_of !== count) throw invalidField('best_of', "must equal 'n'");
  if (body.echo && body.logprobs !== undefined) throw invalidField('logprobs', "is not supported together with 'echo'");
  const total = body.prompt.length * count;
  const totalMax = Math.max(choicesMax, body.prompt.length);
  if (total > totalMax) throw invalidField('n', `all prompts together may have at most ${totalMax} choices`);
  for (const prompt of body.prompt) {
    if (typeof prompt === 'string') continue;
    const isKnown = prompt.every((token) => token < vocabularySize);
    if (!isKnown) throw invalidField('prompt', `token ids must be integers from 0 to ${vocabularySize - 1}`);
  }
}

function promptList(value: unknown): Prompt[] | null {
  if (typeof value === 'string') return [value];
  if (!Array.isArray(value)) return null;
  if (isTokens(value)) return [value];
  return value.every((item) => typeof item === 'string' || isTokens(item)) ? (value as Prompt[]) : null;
}

function isTokens(value: unknown): value is number[] {
  return Array.isArray(value) && value.length > 0 && value.every((item) => Number.isInteger(item) && item >= 0);
}
