import type { FastifyInstance } from 'fastify';
import type { Logger } from 'pino';
import type { Config } from '../shared/config.js';
import { printableConfig } from '../shared/config.js';
import type { ExitContext } from './cli/exit-messages.js';
import { fetchModel } from './cli/pull.js';
import { httpConfig } from './http/http-config.js';
import { createServer } from './http/server.js';
import { createLogger } from './logger.js';
import { modelNames } from './model-names.js';
import { packageVersion } from './package-root.js';
import { startPipeline, type WorkerPipeline } from './pipeline.js';
import { planReport } from './plan-report.js';
import { WorkerPreparePool } from './prepare-pool.js';
import { warmUp } from './warm-up.js';

const EXIT_FAILED = 1;

/**
 * `plimsoll serve`: listens first, so that a busy port is known at once and `/readyz` answers while the model loads; then gets the model,
 * starts the pipeline, and serves until SIGINT or SIGTERM. Resolves with the exit code.
 */
export async function serve(config: Config, context: ExitContext): Promise<number> {
  const startedAtMs = performance.now();
  const log = await createLogger(config);
  log.debug(printableConfig(config), 'settings');
  const stop = new StopSignal(log);
  const server = createServer({ pipeline: null, prepare: null, config: httpSettings(config), logger: log });
  let pipeline: WorkerPipeline | null = null;
  let prepare: WorkerPreparePool | null = null;
  try {
    const address = await server.listen({ host: config.host, port: config.port });
    warnWhenOpen(config, log);
    const modelPath = await fetchModel(config.model, process.stderr, { env: process.env, signal: stop.signal });
    context.modelPath = modelPath;
    pipeline = await startPipeline({ config, modelPath, log: (level, message) => log[level](message) });
    for (const line of planReport(pipeline.ready)) log.info(line);
    prepare = new WorkerPreparePool({ modelHandle: pipeline.model.handle });
    await Promise.all([prepare.warmUp(), config.warmup ? warmUp(pipeline) : null]);
    const died = new Promise<Error>((resolve) => pipeline?.onFatal(resolve));
    server.attach(pipeline, prepare);
    log.info(
      { address, version: packageVersion, readyMs: Math.round(performance.now() - startedAtMs) },
      `ready on ${address}`,
    );
    const end = await Promise.race([stop.requested, died]);
    if (end instanceof Error) {
      log.fatal(end.message);
      return EXIT_FAILED;
    }
    await drain(server, pipeline, config, log);
    return 0;
  } finally {
    // Sockets last: what drains still has answers to write.
    await pipeline?.close(0);
    await prepare?.close();
    server.server.closeAllConnections();
    await server.close();
    stop.dispose();
  }
}

async function drain(server: FastifyInstance, pipeline: WorkerPipeline, config: Config, log: Logger): Promise<void> {
  log.info(
    `stopping: no new requests, ${pipeline.activeCount} in flight have ${config.shutdownTimeoutMs / 1000} s to finish`,
  );
  const ended = await server.drain(config.shutdownTimeoutMs);
  if (ended > 0) log.warn(`${ended} requests did not finish in time and were ended`);
  log.info('stopped');
}

function httpSettings(config: Config) {
  const names = modelNames(config);
  return httpConfig({
    modelName: names.served,
    modelAliases: names.aliases,
    modelRoot: config.model,
    systemFingerprint: `plimsoll-${packageVersion}`,
    apiKeys: config.apiKeys,
    corsOrigins: config.corsOrigins,
  });
}

function warnWhenOpen(config: Config, log: Logger): void {
  const isLoopback = config.host === 'localhost' || config.host === '::1' || /^127\./.test(config.host);
  if (isLoopback || config.apiKeys.length > 0) return;
  log.warn(
    `${config.host} can be reached by other machines and no API key is set: anyone who can reach it can use it (--api-key)`,
  );
}

/** The first SIGINT or SIGTERM asks for a graceful stop, the second ends the process at once. */
class StopSignal {
  readonly requested: Promise<'stop'>;
  private readonly controller = new AbortController();
  private readonly onSignal: (name: NodeJS.Signals) => void;

  constructor(log: Logger) {
    this.requested = new Promise((resolve) => this.controller.signal.addEventListener('abort', () => resolve('stop')));
    this.onSignal = (name) => {
      if (this.controller.signal.aborted) {
        log.warn(`${name} again: ending now`);
        process.exit(EXIT_FAILED);
      }
      this.controller.abort();
    };
    process.on('SIGINT', this.onSignal);
    process.on('SIGTERM', this.onSignal);
  }

  get signal(): AbortSignal {
    return this.controller.signal;
  }

  dispose(): void {
    process.off('SIGINT', this.onSignal);
    process.off('SIGTERM', this.onSignal);
  }
}
