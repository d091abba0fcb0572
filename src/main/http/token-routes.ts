import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import PQueue from 'p-queue';
import { z } from 'zod';
import { PlimsollError } from '../../shared/errors.js';
import { detokenize } from '../streaming/detokenizer.js';
import { conversationFields, refuseTools, templateInputs } from './chat-schema.js';
import { boolean, invalidField, listOf, optional, parse } from './fields.js';
import type { HttpConfig } from './http-config.js';
import type { Serving } from './serving.js';

/** Tokens of one call. Chosen: eight times the longest context of any model here, and no pause for others. */
const TOKENS_MAX = 2 ** 20;

export const tokenizeSchema = z.object(
  {
    content: z.string({ error: 'must be a string' }),
    add_special: optional(boolean),
    parse_special: optional(boolean),
    with_pieces: optional(boolean),
  },
  { error: 'must be a JSON object' },
);

export const detokenizeSchema = z.object(
  {
    tokens: listOf(z.int({ error: 'must be an integer' }).min(0, { error: 'must be at least 0' }), TOKENS_MAX),
  },
  { error: 'must be a JSON object' },
);

export function templateSchema(config: HttpConfig) {
  return z.object(conversationFields(config), { error: 'must be a JSON object' });
}

/** POST /tokenize, /detokenize and /apply-template, as llama.cpp's server has them. They queue apart from generations, and never wait behind them. */
export function addTokenRoutes(app: FastifyInstance, serving: Serving, config: HttpConfig): void {
  const queue = new PQueue({ concurrency: config.sideJobsRunning });
  const bounded = async <T>(reply: FastifyReply, job: (signal: AbortSignal) => Promise<T>): Promise<T> => {
    if (queue.size >= config.sideJobsWaiting)
      throw new PlimsollError('queue_full', 'Too many requests. Try again later.');
    const abort = new AbortController();
    reply.raw.once('close', () => abort.abort());
    return (await queue.add(() => job(abort.signal), { signal: abort.signal })) as T;
  };

  app.post('/tokenize', async (request, reply) => {
    const { prepare, table } = serving.require();
    const body = parse(tokenizeSchema, request.body);
    const options = { addSpecial: body.add_special ?? false, parseSpecial: body.parse_special ?? true };
    const tokens = Array.from(await bounded(reply, (signal) => prepare.text(body.content, options, signal)));
    if (tokens.length > TOKENS_MAX) throw invalidField('content', `has more than ${TOKENS_MAX} tokens`);
    if (!body.with_pieces) return { tokens };
    return { tokens: tokens.map((id) => ({ id, piece: table.wholeText(id) ?? Array.from(table.bytes(id)) })) };
  });

  app.post('/detokenize', async (request: FastifyRequest, reply) => {
    const { table } = serving.require();
    const { tokens } = parse(detokenizeSchema, request.body);
    if (!tokens.every((token) => token < table.size)) {
      throw invalidField('tokens', `token ids must be integers from 0 to ${table.size - 1}`);
    }
    return { content: await bounded(reply, async () => detokenize(table, tokens)) };
  });

  const conversation = templateSchema(config);
  app.post('/apply-template', async (request, reply) => {
    const { prepare } = serving.require();
    const body = parse(conversation, request.body);
    refuseTools(body);
    const inputs = templateInputs(body);
    return { prompt: await bounded(reply, (signal) => prepare.render(inputs, signal)) };
  });
}
