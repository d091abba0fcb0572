import type { FastifyInstance } from 'fastify';
import type { Logger } from 'pino';
import type { Config } from '../shared/config.js';
import { printableConfig } from '../shared/config.js';
import { EXIT_FAILED } from './cli/cli-error.js';
import type { ExitContext } from './cli/exit-messages.js';
import { fetchModel } from './cli/pull.js';
import { createLogger, isPrettyLog } from './logger.js';
import { modelNames } from './model-names.js';
import { cacheFolder } from './models/cache-folder.js';
import { packageVersion } from './package-root.js';
import type { Pipeline } from './pipeline-types.js';
import { planReport } from './plan-report.js';
import { prepareOptionsOf, WorkerPreparePool } from './prepare-pool.js';
import { type LoadedModel, ModelResidence } from './residence/model-residence.js';
import { spillFolder } from './spill-folder.js';
import { StartError } from './start-error.js';
import { startPipeline } from './start-pipeline.js';
import { type LineView, WHOLE_LINE } from './supervisor/line-view.js';
import { LoadLine } from './supervisor/load-line.js';
import { EXIT_PIPELINE_DIED } from './supervisor/protocol.js';
import { openSupervisorLink, type SupervisorLink } from './supervisor/supervisor-link.js';
import { warmUp } from './warm-up.js';

interface HttpSide {
  server: FastifyInstance;
  /** Warms its code up until `isOver`. */
  rehearse(isOver: () => boolean): Promise<number>;
}

/** The model's side of a server: what stands once it is loaded. */
interface ServedModel {
  residence: ModelResidence;
  line: LoadLine;
}

/**
 * `plimsoll serve`: the model loads in its workers while this thread imports the HTTP side and listens, so that a busy port is known at
 * once and `/readyz` answers meanwhile; then serves until SIGINT or SIGTERM. Resolves with the exit code.
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
  const failed = new AbortController();
  let line: LoadLine | null = null;
  const loading = loadModel(config, context, link, log, AbortSignal.any([stop.signal, failed.signal]), (opened) => {
    line = opened;
  });
  let isSettled = false;
  let earlyError: Error | null = null;
  loading
    .catch((error: Error) => {
      earlyError = error;
    })
    .finally(() => {
      isSettled = true;
    });
  let server: FastifyInstance | null = null;
  try {
    const http = await openHttp(config, log, () => line?.view() ?? WHOLE_LINE);
    server = http.server;
    // What fails at once, such as a file that is not there, is said before anything else.
    if (earlyError) throw earlyError;
    const address = await server.listen({
      host: config.host,
      port: config.port,
      listenTextResolver: (where) => `listening on ${where}, the model is loading`,
    });
    warnWhenOpen(config, log);
    await http.rehearse(() => isSettled);
    const model = await loading;
    const { pipeline, prepare } = model.residence;
    const died = new Promise<Error>((resolve) => pipeline.onFatal(resolve));
    server.attach(pipeline, prepare);
    model.line.watch(() => pipeline.deviceGauges().steps);
    link.ready();
    log.info(
      { address, version: packageVersion, pid: process.pid, readyMs: Math.round(performance.now() - startedAtMs) },
      `ready on ${address}`,
    );
    const end = await Promise.race([stop.requested, died]);
    if (end instanceof Error) {
      link.died();
      // Ending the workers may take long: nobody is sent here meanwhile.
      server.detach();
      log.fatal(end.message);
      return EXIT_PIPELINE_DIED;
    }
    link.stopping();
    await drain(server, pipeline, config, log);
    return 0;
  } catch (error) {
    // Told to stop while the model was loading: that is what it did.
    if (stop.signal.aborted && (error instanceof StartError || isAbort(error))) return 0;
    throw error;
  } finally {
    failed.abort();
    const model = await loading.catch(() => null);
    model?.line.close();
    // Sockets last: what drains still has answers to write.
    await model?.residence.close(0);
    server?.server.closeAllConnections();
    await server?.close();
    stop.dispose();
  }
}

function isAbort(error: unknown): boolean {
  return error instanceof Error && error.name === 'AbortError';
}

/** Fetches the model if needed and loads it, so that it can be unloaded and come back. @throws ModelError, StartError. */
async function loadModel(
  config: Config,
  context: ExitContext,
  link: SupervisorLink,
  log: Logger,
  signal: AbortSignal,
  onLine: (line: LoadLine) => void,
): Promise<ServedModel> {
  const modelPath = await fetchModel(config.model, process.stderr, { env: process.env, signal });
  context.modelPath = modelPath;
  const line = new LoadLine({ config, modelPath, link, log });
  onLine(line);
  const residence = await ModelResidence.start(
    {
      load: (loadSignal, firstRequestId) =>
        startModel({ config, modelPath, line, log, signal: loadSignal, firstRequestId }),
      idleUnloadMs: config.idleUnloadMs,
      loadTimeoutMs: config.queueTimeoutMs,
      waitingMax: config.maxQueuedRequests,
      log: (level, message) => log[level](message),
    },
    signal,
  );
  return { residence, line };
}

interface ModelStart {
  config: Config;
  modelPath: string;
  line: LoadLine;
  log: Logger;
  signal: AbortSignal;
  firstRequestId: number;
}

/** Starts the pipeline, and runs everything once. @throws StartError. */
async function startModel({ config, modelPath, line, log, signal, firstRequestId }: ModelStart): Promise<LoadedModel> {
  const pipeline = await startPipeline({
    config,
    modelPath,
    lineFraction: line.fraction,
    spillFolder: spillFolder(cacheFolder()),
    firstRequestId,
    signal,
    log: (level, message) => log[level](message),
  });
  line.planned(pipeline.ready.lineFraction);
  // In full once: a model that comes back many times a day must not fill a log.
  const level = firstRequestId === 1 ? 'info' : 'debug';
  for (const text of planReport(pipeline.ready)) log[level](text);
  const prepare = new WorkerPreparePool(prepareOptionsOf(pipeline));
  // A probe has paged the weights in and compiled what there is to compile.
  const needsWarmUp = config.warmup && !pipeline.ready.probe.ran;
  try {
    await Promise.all([prepare.warmUp(), needsWarmUp ? warmUp(pipeline) : null]);
  } catch (error) {
    // What started must not stay behind: the next request starts it all again.
    await pipeline.close(0);
    await prepare.close();
    throw error;
  }
  return { pipeline, prepare };
}

/** The HTTP side, imported while the model loads: it takes a good part of a start. */
async function openHttp(config: Config, log: Logger, line: () => LineView): Promise<HttpSide> {
  const [{ createServer }, { httpConfig }, { rehearse }] = await Promise.all([
    import('./http/server.js'),
    import('./http/http-config.js'),
    import('./http/rehearsal.js'),
  ]);
  const names = modelNames(config);
  const settings = httpConfig({
    modelName: names.served,
    modelAliases: names.aliases,
    modelRoot: config.model,
    systemFingerprint: `plimsoll-${packageVersion}`,
    apiKeys: config.apiKeys,
    corsOrigins: config.corsOrigins,
  });
  return {
    server: createServer({ pipeline: null, prepare: null, config: settings, logger: log, line }),
    rehearse: (isOver) => rehearse(settings, isOver),
  };
}

async function drain(server: FastifyInstance, pipeline: Pipeline, config: Config, log: Logger): Promise<void> {
  log.info(
    `stopping: no new requests, ${pipeline.activeCount} in flight have ${config.shutdownTimeoutMs / 1000} s to finish`,
  );
  const ended = await server.drain(config.shutdownTimeoutMs);
  if (ended > 0) log.warn(`${ended} requests did not finish in time and were ended`);
  log.info('stopped');
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
