import type { FastifyInstance } from 'fastify';

const METHODS = 'GET, POST, OPTIONS';
/** Headers of ours that a page's script may read. */
const EXPOSED = 'x-request-id, retry-after, x-should-retry';
/** A day: browsers cap it lower by themselves. Chosen. */
const PREFLIGHT_SECONDS = '86400';

/** CORS for the origins that were asked for; without any, not one header. */
export function corsHeaders(origins: readonly string[], origin: string | undefined): Record<string, string> {
  if (origins.length === 0 || origin === undefined) return {};
  const isAllowed = origins.includes('*') || origins.includes(origin);
  if (!isAllowed) return { vary: 'Origin' };
  return { 'access-control-allow-origin': origin, 'access-control-expose-headers': EXPOSED, vary: 'Origin' };
}

/** Answers preflights before authentication: browsers send them without the key. */
export function addCors(app: FastifyInstance, origins: readonly string[]): void {
  if (origins.length === 0) return;
  app.addHook('onRequest', async (request, reply) => {
    const headers = corsHeaders(origins, request.headers.origin);
    reply.headers(headers);
    const isPreflight = request.method === 'OPTIONS' && request.headers['access-control-request-method'] !== undefined;
    if (!isPreflight || !('access-control-allow-origin' in headers)) return;
    const asked = request.headers['access-control-request-headers'];
    await reply
      .code(204)
      .headers({
        'access-control-allow-methods': METHODS,
        'access-control-allow-headers': asked ?? 'authorization, content-type, x-api-key',
        'access-control-max-age': PREFLIGHT_SECONDS,
      })
      .send();
  });
}
