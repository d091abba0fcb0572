import type { FastifyInstance, FastifyReply } from 'fastify';
import type { Metrics } from '../metrics.js';
import type { LineView } from '../supervisor/line-view.js';
import { sendError } from './error-reply.js';
import type { Serving } from './serving.js';

/** Answer without a key: nothing in them is anyone's. */
export const OPEN_PATHS: ReadonlySet<string> = new Set(['/healthz', '/health', '/readyz']);

/**
 * GET /healthz: the process lives. GET /readyz: requests are taken. GET /health is llama.cpp's name, and means ready as it does there.
 * None asks for a key: orchestrators have none, and there is nothing in them.
 */
export function addHealthRoutes(app: FastifyInstance, serving: Serving): void {
  app.get('/healthz', async () => ({ status: 'ok' }));
  const ready = async (_: unknown, reply: FastifyReply) => {
    const { refusal } = serving;
    return refusal === null ? { status: 'ok' } : sendError(reply, refusal);
  };
  app.get('/readyz', ready);
  app.get('/health', ready);
}

/** GET /metrics and /v1/load-line. Both ask for the key, where there is one. They answer while the model loads. */
export function addMetricsRoutes(app: FastifyInstance, serving: Serving, metrics: Metrics, line: () => LineView): void {
  app.get('/metrics', async (_, reply) => reply.type(metrics.contentType).send(await metrics.text()));
  app.get('/v1/load-line', async () => {
    const { pipeline } = serving.require();
    return {
      object: 'load_line',
      context_tokens: pipeline.contextTokens,
      active_requests: pipeline.activeCount,
      line: line(),
      ...pipeline.loadLine(),
      device: pipeline.deviceGauges(),
      scheduler: pipeline.schedulerGauges(),
    };
  });
}
