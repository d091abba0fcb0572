import type { FastifyInstance } from 'fastify';
import type { HttpConfig } from './http-config.js';
import { openapiDocument } from './openapi-document.js';

/** GET /openapi.json, made on the first call. */
export function addOpenapiRoute(app: FastifyInstance, config: HttpConfig): void {
  let document: Record<string, unknown> | null = null;
  app.get('/openapi.json', async () => (document ??= openapiDocument(config)));
}
