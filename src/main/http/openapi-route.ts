import type { FastifyInstance } from 'fastify';
import { z } from 'zod';
import { chatSchema } from './chat-schema.js';
import { completionSchema } from './completion-schema.js';
import type { HttpConfig } from './http-config.js';

/** Made from the schemas that check the requests, so that it cannot say anything else. */
export function openapiDocument(config: HttpConfig): Record<string, unknown> {
  const json = (schema: z.ZodType) => z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' });
  const error = { $ref: '#/components/responses/Error' };
  const post = (summary: string, schema: z.ZodType) => ({
    post: {
      summary,
      requestBody: { required: true, content: { 'application/json': { schema: json(schema) } } },
      responses: { 200: { description: 'The reply, or a stream of server-sent events' }, default: error },
    },
  });
  const get = (summary: string) => ({ get: { summary, responses: { 200: { description: 'OK' }, default: error } } });
  return {
    openapi: '3.1.0',
    info: { title: 'Plimsoll', version: '1', description: 'Errors: docs/errors.md.' },
    paths: {
      '/v1/chat/completions': post('Chat completion', chatSchema(config)),
      '/v1/completions': post('Text completion', completionSchema(config)),
      '/v1/models': get('The model'),
      '/healthz': get('Whether the process lives'),
      '/readyz': get('Whether requests are taken'),
      '/metrics': get('Prometheus metrics'),
      '/v1/load-line': get('Memory and scheduler gauges'),
    },
    components: {
      responses: { Error: { description: 'An error', content: { 'application/json': { schema: errorSchema } } } },
    },
  };
}

const errorSchema = {
  type: 'object',
  properties: {
    error: {
      type: 'object',
      properties: {
        message: { type: 'string' },
        type: { type: 'string' },
        param: { type: ['string', 'null'] },
        code: { type: 'string' },
      },
    },
  },
};

/** GET /openapi.json, made on the first call. */
export function addOpenapiRoute(app: FastifyInstance, config: HttpConfig): void {
  let document: Record<string, unknown> | null = null;
  app.get('/openapi.json', async () => (document ??= openapiDocument(config)));
}
