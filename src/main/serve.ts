import type { FastifyInstance } from 'fastify';
import type { Logger } from 'pino';
import type { Config } from '../shared/config.js';
import { printableConfig } from '../shared/config.js';
import { EXIT_FAILED } from './cli/cli-error.js';
import type { ExitContext } from './cli/exit-messages.js';
import { fetchModel } from './cli/pull.js';
import { httpConfig } from './http/http-config.js';
import { createServer } from './http/server.js';
import { createLogger, isPrettyLog } from './logger.js';
import { modelNames } from './model-names.js';
import { packageVersion } from './package-root.js';
import { startPipeline, type WorkerPipeline } from './pipeline.js';
import { planReport } from './plan-report.js';
import { WorkerPreparePool } from './prepare-pool.js';
import { WHOLE_LINE } from './supervisor/line-view.js';
import { LoadLine } from './supervisor/load-line.js';
import { EXIT_PIPELINE_DIED } from './supervisor/protocol.js';
import { openSupervisorLink, type SupervisorLink } from './supervisor/supervisor-link.js';
import { warmUp } from './warm-up.js';

/**
 * `plimsoll serve`: listens first, so that a busy port is known at once and `/readyz` answers while the model loads; then gets the model,
 * starts the pipeline, and serves until SIGINT or SIGTERM. Resolves with the exit code.
 */
export async function serve(config: Config, context: ExitContext): Promise<number> {
  const startedAtMs = performance.now();
  const log = await createLogger(config);
  log.debug(printableConfig(config), 'settings');
  const link = openSupervisorLink(process.env);
  const stop = new StopSignal(log, link);
  link.hello({
    shutdownTimeoutMs: config.shutdownTimeoutMs,
    logFormat: isPrettyLog(config) ? 'text' : 'json',
    isSilent: config.logLevel === 'silent',
  });
  let line: LoadLine | null = null;
  const server = createServer({
    pipeline: null,
    prepare: null,
    config: httpSettings(config),
    logger: log,
    line: () => line?.view() ?? WHOLE_LINE,
  });
  let pipeline: WorkerPipeline | null = null;
  let prepare: WorkerPreparePool | null = null;
  try {
    const address = await server.listen({ host: config.host, port: config.port });
    warnWhenOpen(config, log);
    const modelPath = await fetchModel(config.model, process.stderr, { env: process.env, signal: stop.signal });
    context.modelPath = modelPath;
    line = new LoadLine({ config, modelPath, link, log });
    pipeline = await startPipeline({
      config,
      modelPath,
      lineFraction: line.fraction,
      log: (level, message) => log[level](message),
    });
    line.planned(pipeline.ready.lineFraction);
    for (const line of planReport(pipeline.ready)) log.info(line);
    prepare = new WorkerPreparePool({ modelHandle: pipeline.model.handle });
    await Promise.all([prepare.warmUp(), config.warmup ? warmUp(pipeline) : null]);
    const died = new Promise<Error>((resolve) => pipeline?.onFatal(resolve));
    server.attach(pipeline, prepare);
    const running = pipeline;
    line.watch(() => running.deviceGauges().steps);
    link.ready();
    log.info(
      { address, version: packageVersion, pid: process.pid, readyMs: Math.round(performance.now() - startedAtMs) },
      `ready on ${address}`,
    );
    const end = await Promise.race([stop.requested, died]);
    if (end instanceof Error) {
      link.died();
      log.fatal(end.message);
      return EXIT_PIPELINE_DIED;
    }
    link.stopping();
    await drain(server, pipeline, config, log);
    return 0;
  } finally {
    line?.close();
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

/**
 * The first request to stop asks for a graceful one, the second from the same side ends the process at once. Sides are counted apart
 * because a Ctrl-C reaches this process and its supervisor, which passes it on.
 */
class StopSignal {
  readonly requested: Promise<'stop'>;
  private readonly controller = new AbortController();
  private readonly asked = new Set<string>();
  private readonly onSignal: (name: NodeJS.Signals) => void;
  private readonly offLink: () => void;

  constructor(
    private readonly log: Logger,
    link: SupervisorLink,
  ) {
    this.requested = new Promise((resolve) => this.controller.signal.addEventListener('abort', () => resolve('stop')));
    this.onSignal = (name) => this.ask('signal', name);
    process.on('SIGINT', this.onSignal);
    process.on('SIGTERM', this.onSignal);
    this.offLink = link.onStop((source) => this.ask(source, source));
  }

  get signal(): AbortSignal {
    return this.controller.signal;
  }

  dispose(): void {
    process.off('SIGINT', this.onSignal);
    process.off('SIGTERM', this.onSignal);
    this.offLink();
  }

  private ask(side: string, name: string): void {
    if (this.asked.has(side)) {
      this.log.warn(`${name} again: ending now`);
      process.exit(EXIT_FAILED);
    }
    this.asked.add(side);
    this.controller.abort();
  }
}
