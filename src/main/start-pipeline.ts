import type { Config } from '../shared/config.js';
import { createCoreBuffers } from '../shared/pipeline-buffers.js';
import type { FakeEngineOptions } from '../workers/fake-options.js';
import type { ForwardData, WorkerLogLevel } from '../workers/worker-messages.js';
import { openDisk } from './open-disk.js';
import { WorkerPipeline } from './pipeline.js';
import { planFlags, planThreads } from './plan-settings.js';
import { checkPrefixDir } from './prefix-dir.js';
import { type WatchLimits, WorkerSet } from './worker-set.js';

/** A server is ready without knowing what is on the disk after so long. Chosen: heads of some hundred files take some milliseconds. */
const OPEN_MS = 2_000;

export interface PipelineOptions {
  config: Config;
  modelPath: string;
  /** Tests: the fake engine instead of the addon's. */
  fake?: Partial<FakeEngineOptions>;
  /** Where the load line is, as a share of the limit: below 1 after deaths of memory. Default 1. */
  lineFraction?: number;
  /** Request ids count from here, default 1: ids of a pipeline that was there before must not come again. */
  firstRequestId?: number;
  /** The planned context from the start, instead of a small one that grows. */
  fixedContext?: boolean;
  /** On a disk: sequences wait there while the context is replaced. Left out: they are computed again. */
  spillFolder?: string | null;
  /** Tests: shorter silences. */
  watch?: WatchLimits;
  /** Aborting gives up a start that is under way. */
  signal?: AbortSignal;
  onProgress?: (fraction: number) => void;
  log?: (level: WorkerLogLevel, message: string) => void;
}

/** Starts the workers, loads the model, plans and makes the context. @throws StartError, with the plan's refusal where there is one. */
export async function startPipeline(options: PipelineOptions): Promise<WorkerPipeline> {
  if (options.config.prefixDir !== null) await checkPrefixDir(options.config.prefixDir);
  const core = createCoreBuffers();
  let onFatal: (message: string) => void = () => {};
  const events = {
    progress: (fraction: number) => options.onProgress?.(fraction),
    log: (level: WorkerLogLevel, message: string) => options.log?.(level, message),
    fatal: (message: string) => onFatal(message),
  };
  const workers = new WorkerSet(core, forwardData(options, core), events, options.watch);
  const giveUp = () => void workers.stop();
  options.signal?.addEventListener('abort', giveUp);
  try {
    options.signal?.throwIfAborted();
    const ready = await workers.ready();
    const disk = await openDisk(options, ready);
    const pipeline = new WorkerPipeline(options.config, ready, core, workers, options.firstRequestId ?? 1, disk);
    onFatal = (message) => pipeline.die(message);
    if (disk !== null) await workers.opened(OPEN_MS);
    return pipeline;
  } catch (error) {
    await workers.stop();
    throw error;
  } finally {
    options.signal?.removeEventListener('abort', giveUp);
  }
}

function forwardData(
  { config, modelPath, fake, lineFraction, fixedContext, spillFolder }: PipelineOptions,
  core: ForwardData['core'],
): ForwardData {
  const threads = planThreads(config);
  return {
    core,
    fake: fake ?? null,
    model: {
      path: modelPath,
      gpuLayers: config.gpuLayers,
      devices: [...config.devices],
      useMmap: true,
      useMlock: false,
    },
    flags: planFlags(config),
    lineFraction: lineFraction ?? 1,
    threads,
    promptThreads: threads,
    liveThreads: config.threads === 'auto',
    fixedContext: fixedContext ?? false,
    spillFolder: spillFolder ?? null,
    probe: config.probe,
    debugLog: config.logLevel === 'debug' || config.logLevel === 'trace',
  };
}
