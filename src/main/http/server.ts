import { randomUUID } from 'node:crypto';
import type { Socket } from 'node:net';
import Fastify, { type FastifyBaseLogger, type FastifyInstance, type FastifyRequest, LogController } from 'fastify';
import { PlimsollError } from '../../shared/errors.js';
import { Metrics } from '../metrics.js';
import type { Pipeline } from '../pipeline-types.js';
import type { PreparePool } from '../prepare-types.js';
import { WriteBatcher } from '../streaming/write-batcher.js';
import { type LineView, WHOLE_LINE } from '../supervisor/line-view.js';
import { KeyRing } from './auth.js';
import { addChatRoute } from './chat-route.js';
import { addCompletionRoute } from './completion-route.js';
import { addCors } from './cors.js';
import { rawErrorReply, sendError, toPlimsollError } from './error-reply.js';
import { addHealthRoutes, addMetricsRoutes, OPEN_PATHS } from './health-routes.js';
import type { HttpConfig } from './http-config.js';
import { KeyShares } from './key-shares.js';
import { addModelRoutes } from './models-route.js';
import { addOpenapiRoute } from './openapi-route.js';
import type { RouteContext } from './respond.js';
import { Serving } from './serving.js';
import { addTokenRoutes } from './token-routes.js';

export interface ServerOptions {
  /** null until the model is loaded: the server may listen before that, and `attach` comes later. */
  pipeline: Pipeline | null;
  prepare: PreparePool | null;
  config: HttpConfig;
  logger: FastifyBaseLogger;
  /** Where the load line is; left out: at the limit. */
  line?: () => LineView;
}

declare module 'fastify' {
  interface FastifyInstance {
    /** The model is there: requests are taken from now on. */
    attach(pipeline: Pipeline, prepare: PreparePool): void;
    /** The pipeline is gone: requests get `loading` until another is attached. */
    detach(): void;
    /**
     * Refuses new requests with `draining`, waits for those in flight, ends what is left after `timeoutMs` with an error. Returns how
     * many that were. The sockets stay open: `close()` comes after.
     */
    drain(timeoutMs: number): Promise<number>;
  }
  interface FastifyRequest {
    /** Index of the caller's API key; −1: none. */
    keyIndex: number;
  }
}

/** A client's own request id is kept where it is harmless in a header and a log. */
const REQUEST_ID = /^[\w.:-]{1,128}$/;

/** The HTTP API, not listening yet. */
export function createServer(options: ServerOptions): FastifyInstance {
  const { config } = options;
  const serving = new Serving();
  if (options.pipeline !== null && options.prepare !== null) serving.attach(options.pipeline, options.prepare);
  const keys = new KeyRing(config.apiKeys);
  const metrics = new Metrics(() => serving.pipeline);
  const app = makeFastify(options);

  app.decorate('attach', (pipeline: Pipeline, prepare: PreparePool) => serving.attach(pipeline, prepare));
  app.decorate('detach', () => serving.detach());
  app.decorate('drain', (timeoutMs: number) => serving.drain(timeoutMs));
  app.decorateRequest('keyIndex', -1);

  app.addHook('onRequest', async (request, reply) => {
    reply.header('x-request-id', request.id);
  });
  addCors(app, config.corsOrigins);
  app.addHook('onRequest', async (request) => {
    if (!OPEN_PATHS.has(request.routeOptions.url ?? '')) request.keyIndex = keys.identify(request.headers);
  });
  addErrorHandlers(app, metrics);
  addRequestLog(app);

  const cacheSalt = (request: FastifyRequest, salt: string | number | undefined) =>
    keys.cacheSalt(request.keyIndex, salt);
  const shares = new KeyShares(config.apiKeys.length);
  const context: RouteContext = { serving, config, metrics, batcher: new WriteBatcher(), cacheSalt, shares };
  addHealthRoutes(app, serving);
  addMetricsRoutes(app, serving, metrics, options.line ?? (() => WHOLE_LINE));
  addModelRoutes(app, serving, config);
  addChatRoute(app, context);
  addCompletionRoute(app, context);
  addTokenRoutes(app, serving, config);
  addOpenapiRoute(app, config);
  return app;
}

function makeFastify({ config, logger }: ServerOptions): FastifyInstance {
  const app = Fastify({
    loggerInstance: logger,
    // Ours says less: a URL may hold what a user wrote.
    logController: new LogController({ disableRequestLogging: true }),
    bodyLimit: config.bodyLimitBytes,
    requestTimeout: config.requestTimeoutMs,
    keepAliveTimeout: config.keepAliveTimeoutMs,
    requestIdHeader: false,
    genReqId: (raw) => {
      const theirs = raw.headers['x-request-id'];
      return typeof theirs === 'string' && REQUEST_ID.test(theirs) ? theirs : randomUUID();
    },
    http: {
      headersTimeout: config.headersTimeoutMs,
      // Node looks at the two time-outs this often; its 30 s would make them meaningless.
      connectionsCheckingInterval: Math.max(50, Math.min(5000, config.headersTimeoutMs / 2)),
    },
    clientErrorHandler,
  });
  // A JSON body under another type is refused, not guessed at: text/plain is what a page may send anywhere without asking (CORS).
  app.removeContentTypeParser('text/plain');
  app.server.maxConnections = config.connectionsMax;
  return app;
}

function addErrorHandlers(app: FastifyInstance, metrics: Metrics): void {
  app.setErrorHandler((thrown, request, reply) => {
    // The client is gone, and its going is what was thrown.
    if (request.raw.socket.destroyed) return reply.hijack();
    const error = toPlimsollError(thrown, request);
    metrics.countError(error.code);
    return sendError(reply, error);
  });
  app.setNotFoundHandler((request, reply) => {
    const path = request.url.split('?', 1)[0];
    const allowed = allowedMethods(app, path);
    const error =
      allowed.length > 0
        ? new PlimsollError('method_not_allowed', `Use ${allowed.join(' or ')} for this path.`)
        : new PlimsollError('not_found', 'There is nothing at this path.');
    metrics.countError(error.code);
    if (allowed.length > 0) reply.header('allow', allowed.join(', '));
    return sendError(reply, error);
  });
}

function allowedMethods(app: FastifyInstance, path: string): string[] {
  const url = path.startsWith('/v1/models/') ? '/v1/models/*' : path;
  return ['GET', 'POST'].filter((method) => app.hasRoute({ method, url }));
}

function addRequestLog(app: FastifyInstance): void {
  app.addHook('onResponse', async (request, reply) => {
    const route = request.routeOptions.url ?? 'none';
    // Probes and scrapers come every few seconds for as long as a server lives.
    const level = OPEN_PATHS.has(route) || route === '/metrics' ? 'debug' : 'info';
    request.log[level](
      { method: request.method, route, status: reply.statusCode, ms: Math.round(reply.elapsedTime) },
      'request',
    );
  });
}

/** A connection on which no request could be read: time-outs, oversized headers, no HTTP at all. */
function clientErrorHandler(this: FastifyInstance, error: Error & { code?: string }, socket: Socket): void {
  if (!socket.writable || error.code === 'ECONNRESET') {
    socket.destroy();
    return;
  }
  socket.end(rawErrorReply(connectionError(error.code), randomUUID()));
}

function connectionError(code: string | undefined): PlimsollError {
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT')
    return new PlimsollError('request_timeout', 'The request did not arrive in time.');
  if (code === 'HPE_HEADER_OVERFLOW')
    return new PlimsollError('request_too_large', 'The request headers are too large.');
  return new PlimsollError('invalid_request', 'The request is not valid HTTP.');
}
