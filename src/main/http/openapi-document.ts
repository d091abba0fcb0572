import { z } from 'zod';
import { chatSchema } from './chat-schema.js';
import { completionSchema } from './completion-schema.js';
import { OPEN_PATHS } from './health-routes.js';
import type { HttpConfig } from './http-config.js';
import { detokenizeSchema, templateSchema, tokenizeSchema } from './token-routes.js';

type Fields = Record<string, unknown>;

/** Every path, in OpenAPI 3.1. Bodies are made from the schemas that check the requests, so that it cannot say anything else. */
export function openapiDocument(config: HttpConfig): Fields {
  return {
    openapi: '3.1.0',
    info: { title: 'Plimsoll', version: '1', description: 'Errors: docs/errors.md.' },
    ...(config.apiKeys.length > 0 ? { security: [{ bearer: [] }, { key: [] }] } : {}),
    paths: Object.fromEntries(
      Object.entries(operations(config)).map(([path, methods]) => [
        path,
        OPEN_PATHS.has(path) ? open(methods) : methods,
      ]),
    ),
    components: {
      responses: { Error: { description: 'An error', content: { 'application/json': { schema: ERROR_SCHEMA } } } },
      securitySchemes: {
        bearer: { type: 'http', scheme: 'bearer' },
        key: { type: 'apiKey', in: 'header', name: 'x-api-key' },
      },
    },
  };
}

function operations(config: HttpConfig): Record<string, Record<string, Fields>> {
  const orStream = 'The reply, or a stream of server-sent events';
  return {
    '/v1/chat/completions': post('Chat completion', chatSchema(config), orStream),
    '/v1/completions': post('Text completion', completionSchema(config), orStream),
    '/v1/models': get('The model, as a list of one'),
    '/v1/models/{id}': get('The model by its name', { parameters: [MODEL_ID] }),
    '/tokenize': post('Tokens of a text', tokenizeSchema, 'Token ids, with their pieces where asked for'),
    '/detokenize': post('Text of tokens', detokenizeSchema, 'The text'),
    '/apply-template': post(
      'Prompt of a conversation',
      templateSchema(config),
      'The prompt, as the chat template has it',
    ),
    '/healthz': get('Whether the process lives'),
    '/health': get('Whether requests are taken, under the name of other servers'),
    '/readyz': get('Whether requests are taken'),
    '/metrics': get('Prometheus metrics, as text'),
    '/v1/load-line': get('Plan, ledger, and memory and scheduler gauges'),
    '/openapi.json': get('This document'),
  };
}

function post(summary: string, body: z.ZodType, reply: string): Record<string, Fields> {
  const schema = z.toJSONSchema(body, { io: 'input', unrepresentable: 'any' });
  return {
    post: {
      summary,
      requestBody: { required: true, content: { 'application/json': { schema } } },
      responses: { 200: { description: reply }, default: ERROR },
    },
  };
}

function get(summary: string, more: Fields = {}): Record<string, Fields> {
  return { get: { summary, ...more, responses: { 200: { description: 'OK' }, default: ERROR } } };
}

/** No key is asked for. */
function open(methods: Record<string, Fields>): Record<string, Fields> {
  return Object.fromEntries(
    Object.entries(methods).map(([method, operation]) => [method, { ...operation, security: [] }]),
  );
}

const ERROR = { $ref: '#/components/responses/Error' };
const MODEL_ID = {
  name: 'id',
  in: 'path',
  required: true,
  description: 'May have slashes',
  schema: { type: 'string' },
};
const ERROR_SCHEMA = {
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
