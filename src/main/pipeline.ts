import { setTimeout as sleep } from 'node:timers/promises';
import type { Config } from '../shared/config.js';
import { PlimsollError } from '../shared/errors.js';
import { GaugeReader } from '../shared/gauges.js';
import { DEVICE_GAUGES, type DeviceGauge, SCHEDULER_GAUGES, type SchedulerGauge } from '../shared/gauges-layout.js';
import { cellBytesOf } from '../shared/memory/context-ladder.js';
import { AUTO_CHECKPOINT_BYTES, AUTO_HOST_TIER_BYTES } from '../shared/memory/host-tier-budget.js';
import type { RungLimits } from '../shared/memory/rung-policy.js';
import { bellOf, createCoreBuffers, createRingBuffers, startWordsMax } from '../shared/pipeline-buffers.js';
import { tileTokensOf } from '../shared/scheduler/attention-tiles.js';
import type { SchedulerLimits } from '../shared/scheduler/limits.js';
import { SAMPLE_FLAG, SAMPLE_FLAGS_DONE } from '../shared/step-output.js';
import { FINISH_CODE, NOTICE_KIND } from '../shared/token-wire.js';
import type { DiskOptions } from '../workers/disk-loop.js';
import type { FakeEngineOptions } from '../workers/fake-options.js';
import type { OverlapOptions } from '../workers/overlap-options.js';
import type { ForwardData, ForwardReady, WorkerLogLevel } from '../workers/worker-messages.js';
import { finishError } from './finish-error.js';
import { type LoadLineView, loadLineView, residenceOf } from './load-line-view.js';
import type { FileLock } from './models/file-lock.js';
import type { GenerationListener, GenerationRequest, Pipeline, Residence, SampledToken } from './pipeline-types.js';
import { planFlags, planThreads } from './plan-settings.js';
import { checkPrefixDir, lockPrefixDir, prefixDirBytes } from './prefix-dir.js';
import { prefixIdentity } from './prefix-identity.js';
import { SubmitWriter } from './submit-writer.js';
import { TokenReader } from './token-reader.js';
import { type WatchLimits, WorkerSet } from './worker-set.js';

/** Records taken before sockets get their turn. Chosen: some milliseconds of work. */
const DRAIN_RECORDS = 256;
/** The token reader looks up at least this often: cancels that found the ring full are tried again. Chosen. */
const READ_INTERVAL_MS = 250;
/** Steps that follow each other faster than this are taken together: a wake-up costs the forward worker more than such a step. Chosen. */
const BUSY_INTERVAL_MS = 1;
/** A server is ready without knowing what is on the disk after so long. Chosen: heads of some hundred files take some milliseconds. */
const OPEN_MS = 2_000;
/** Idle prefixes are written to disk at a shutdown for so long. Chosen: some GB on a fast disk; the supervisor waits for four times that. */
const FLUSH_MS = 5_000;
/** Cancelled requests leave within a step or two. Chosen. */
const CANCEL_GRACE_MS = 2_000;

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

/** The folder of `--prefix-dir`, which this process has for itself. */
interface OpenedDisk {
  options: DiskOptions;
  lock: FileLock;
}

/** null: there is no disk tier, and the log says why where one was asked for. */
async function openDisk(options: PipelineOptions, ready: ForwardReady): Promise<OpenedDisk | null> {
  const { config, modelPath, log, fake } = options;
  const folder = config.prefixDir;
  if (folder === null) return null;
  if (!ready.model.canTrim) {
    log?.(
      'warn',
      "--prefix-dir has no effect: the ends of this model's sequences cannot be removed, so what is saved is seldom of use",
    );
    return null;
  }
  let lock: FileLock | null = null;
  try {
    lock = await lockPrefixDir(folder);
    if (lock === null) {
      log?.('warn', `--prefix-dir ${folder} has no effect: another server uses it; give each its own folder`);
      return null;
    }
    const boundBytes = await prefixDirBytes(folder, config.prefixDirBytes);
    const identity = await prefixIdentity({ config, modelPath, ready, isFake: fake !== undefined });
    return { options: { folder, boundBytes, identity }, lock };
  } catch (error) {
    await lock?.release();
    log?.('warn', `--prefix-dir ${folder} has no effect: ${(error as Error).message}`);
    return null;
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

/** What the scheduler keeps to, from the settings and the context that stands. */
export function limitsOf(config: Config, ready: ForwardReady): SchedulerLimits {
  const { plan, model, context, ladder, probe, stateSize } = ready;
  const sequencesMax = Math.max(...ladder.map(({ spec }) => spec.sequences));
  const tileTokens = tileTokensOf(ready.memory, plan.spec);
  return {
    layout: ladder[0].spec.layout,
    sequences: context.sequences,
    sequencesMax,
    hasShapes: ladder.some(({ spec }) => spec.sequences !== sequencesMax),
    runningCap: Math.min(plan.runningCap, context.sequences),
    cells: context.cells,
    cellsMax: Math.max(context.cells, ladder[ladder.length - 1].cells),
    ...stateSize,
    contextTokens: plan.contextTokens,
    chunkTokens: probe.chunkTokens || plan.chunkTokens,
    batchTokens: context.batchTokens,
    canTrim: model.canTrim,
    prefixCache: config.prefixCache,
    // Without flash attention the engine's kernels for several rows round far enough from those for one row to change greedy answers.
    speculates: config.speculative === 'ngram' && config.flashAttention !== 'off',
    // Main bounds the queue; the scheduler's bound is the second of the pair, with room for preempted requests.
    waitingMax: config.maxQueuedRequests + 2 * plan.runningCap,
    startWords: startWordsMax(plan.contextTokens),
    tileTokens,
    weightsBytes: tileTokens > 0 ? model.sizeBytes : 0,
    targetItlMicros: config.targetItlMs * 1000,
  };
}

function ladderLimits({ plan, ladder, memory }: ForwardReady, idleReleaseMs: number): RungLimits {
  return {
    rungs: ladder.map(({ spec, cells, bytes }) => ({ sequences: spec.sequences, cells, bytes })),
    cellBytes: cellBytesOf(plan),
    marginBytes: plan.arithmetic.marginBytes,
    idleReleaseMs,
    isSharedMemory: memory !== 'discrete',
  };
}

/**
 * What saved prefixes may take in host memory at most: evicted ones, or checkpoints where ends cannot be removed. To the disk and from there
 * everything passes through host memory.
 */
function hostPrefixBytesMax(config: Config, { model }: ForwardReady, hasDisk: boolean): number {
  const { prefixCache, hostPrefixCacheBytes, checkpointCacheBytes } = config;
  if (!prefixCache) return 0;
  if (!model.canTrim) return checkpointCacheBytes === 'auto' ? AUTO_CHECKPOINT_BYTES : checkpointCacheBytes;
  const isAuto = hostPrefixCacheBytes === 'auto' || (hasDisk && hostPrefixCacheBytes === 0);
  return isAuto ? AUTO_HOST_TIER_BYTES : hostPrefixCacheBytes;
}

/** Main's side of the pipeline: submits, cancels, and hands every token to its request's listener. */
export class WorkerPipeline implements Pipeline {
  readonly model;
  readonly contextTokens;
  readonly pieces;
  private readonly listeners = new Map<number, GenerationListener>();
  private readonly submitWriter: SubmitWriter;
  private readonly reader: TokenReader;
  private readonly mainBell;
  private readonly overlapBell;
  private readonly deviceReader: GaugeReader<DeviceGauge>;
  private readonly schedulerReader: GaugeReader<SchedulerGauge>;
  readonly activeMax: number;
  /** Cancels that found the submit ring full. */
  private readonly unsentCancels = new Set<number>();
  private readonly savedBytesMax: number;
  private nextId: number;
  private state: 'running' | 'draining' | 'closed' = 'running';
  private fatalError: PlimsollError | null = null;
  private fatalHandler: ((error: PlimsollError) => void) | null = null;
  private whenIdle: (() => void) | null = null;
  private idleHandler: (() => void) | null = null;
  private closing: Promise<void> | null = null;

  constructor(
    config: Config,
    readonly ready: ForwardReady,
    core: ForwardData['core'],
    private readonly workers: WorkerSet,
    firstRequestId = 1,
    private readonly disk: OpenedDisk | null = null,
  ) {
    this.nextId = firstRequestId;
    this.model = ready.model;
    this.contextTokens = ready.plan.contextTokens;
    this.pieces = ready.pieces;
    this.activeMax = ready.plan.runningCap + config.maxQueuedRequests;
    this.savedBytesMax = hostPrefixBytesMax(config, ready, disk !== null);
    const limits = limitsOf(config, ready);
    const rings = createRingBuffers({ ...limits, sequences: limits.sequencesMax });
    this.submitWriter = new SubmitWriter(rings.submit);
    this.reader = new TokenReader(rings.token, {
      token: (id, sample, flags) => this.onToken(id, sample, flags),
      notice: (id, kind, a) => this.onNotice(id, kind, a),
    });
    this.mainBell = bellOf(core, 'main');
    this.overlapBell = bellOf(core, 'overlap');
    this.deviceReader = new GaugeReader(core.deviceGauges, DEVICE_GAUGES);
    this.schedulerReader = new GaugeReader(core.schedulerGauges, SCHEDULER_GAUGES);
    const options: OverlapOptions = {
      limits,
      ladder: ladderLimits(ready, config.idleReleaseMs),
      runningCap: ready.plan.runningCap,
      memory: ready.memory,
      rung: ready.rung,
      epoch: ready.epoch,
      overlap: config.overlapSchedule,
      maxWaitMs: config.queueTimeoutMs,
      hostPrefixBytesMax: this.savedBytesMax,
      layers: ready.model.layerCount,
      canSpill: ready.canSpill,
    };
    workers.start(rings, options, disk?.options ?? null);
    void this.readTokens();
  }

  get residence(): Residence {
    return residenceOf(this.deviceReader.read());
  }

  /** Checkpoints may be taken where a prompt says that others branch off it. */
  get takesCheckpoints(): boolean {
    return !this.model.canTrim && this.savedBytesMax > 0;
  }

  /** Ids from here on have not been given away. */
  get nextRequestId(): number {
    return this.nextId;
  }

  get activeCount(): number {
    return this.listeners.size;
  }

  submit(request: GenerationRequest, listener: GenerationListener): number {
    if (this.fatalError) throw this.fatalError;
    if (this.state !== 'running')
      throw new PlimsollError('draining', 'the server is shutting down', { retryAfterSeconds: 10 });
    this.assertFits(request.promptTokens.length, request.sampling.maxTokens);
    if (this.activeCount >= this.activeMax) throw queueFull(this.activeCount);
    const id = this.nextId;
    if (!this.submitWriter.request(id, request)) throw queueFull(this.activeCount);
    this.nextId = (this.nextId % 0x7fffffff) + 1;
    this.listeners.set(id, listener);
    this.overlapBell.ring();
    return id;
  }

  cancel(id: number): void {
    if (!this.listeners.has(id) || this.fatalError) return;
    if (!this.submitWriter.cancel(id)) this.unsentCancels.add(id);
    this.overlapBell.ring();
  }

  deviceGauges(): Readonly<Record<DeviceGauge, number>> {
    return this.deviceReader.read();
  }

  schedulerGauges(): Readonly<Record<SchedulerGauge, number>> {
    return this.schedulerReader.read();
  }

  loadLine(): LoadLineView {
    return loadLineView(this.ready, this.deviceReader.read(), this.schedulerReader.read());
  }

  /** Called whenever the last request is over. */
  onIdle(handler: () => void): void {
    this.idleHandler = handler;
  }

  onFatal(handler: (error: PlimsollError) => void): void {
    this.fatalHandler = handler;
    if (this.fatalError) handler(this.fatalError);
  }

  close(timeoutMs: number): Promise<void> {
    this.closing ??= this.drainAndStop(timeoutMs);
    return this.closing;
  }

  /** A worker is gone or hangs: every request fails, and so does everything after. */
  die(message: string): void {
    this.fatalError = new PlimsollError('internal', `the pipeline died: ${message}`);
    this.state = 'closed';
    for (const [id, listener] of [...this.listeners]) {
      this.listeners.delete(id);
      listener.failed(this.fatalError);
    }
    this.whenIdle?.();
    this.fatalHandler?.(this.fatalError);
  }

  private assertFits(promptTokens: number, maxTokens: number): void {
    const limit = this.contextTokens;
    if (promptTokens + maxTokens <= limit) return;
    const asked = promptTokens + maxTokens;
    throw new PlimsollError(
      'context_length_exceeded',
      `This model's maximum context length is ${limit} tokens. The request has ${promptTokens} prompt tokens and asks for up to ${maxTokens} output tokens, ${asked} together, which exceeds the available context size.`,
      { param: promptTokens >= limit ? 'messages' : 'max_tokens' },
    );
  }

  private async drainAndStop(timeoutMs: number): Promise<void> {
    if (this.state === 'running') this.state = 'draining';
    await this.idleWithin(timeoutMs);
    for (const id of this.listeners.keys()) this.cancel(id);
    await this.idleWithin(CANCEL_GRACE_MS);
    await this.workers.flush(FLUSH_MS);
    this.state = 'closed';
    await this.workers.stop();
    await this.disk?.lock.release();
    const error = new PlimsollError('draining', 'the server has shut down');
    for (const [id, listener] of [...this.listeners]) {
      this.listeners.delete(id);
      listener.failed(error);
    }
  }

  private async idleWithin(timeoutMs: number): Promise<void> {
    if (this.listeners.size === 0) return;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, timeoutMs);
      this.whenIdle = () => {
        clearTimeout(timer);
        resolve();
      };
    });
    this.whenIdle = null;
  }

  private async readTokens(): Promise<void> {
    const alarm = setInterval(() => this.mainBell.ring(), READ_INTERVAL_MS);
    alarm.unref();
    let tookAtMs = Number.NEGATIVE_INFINITY;
    while (this.state !== 'closed') {
      const seen = this.mainBell.read();
      const taken = this.reader.drain(DRAIN_RECORDS);
      this.resendCancels();
      const sinceLastMs = performance.now() - tookAtMs;
      if (taken > 0) tookAtMs = performance.now();
      if (taken === DRAIN_RECORDS) await new Promise((resolve) => setImmediate(resolve));
      else if (taken > 0 && sinceLastMs < BUSY_INTERVAL_MS) await sleep(BUSY_INTERVAL_MS);
      else await this.mainBell.waitAsync(seen);
    }
    clearInterval(alarm);
  }

  private resendCancels(): void {
    for (const id of this.unsentCancels) {
      if (!this.submitWriter.cancel(id)) return;
      this.unsentCancels.delete(id);
      this.overlapBell.ring();
    }
  }

  private onToken(id: number, sample: SampledToken, flags: number): void {
    const listener = this.listeners.get(id);
    // Cancelled between the step and now: its last tokens are nobody's.
    if (!listener) return;
    if (flags & SAMPLE_FLAG.samplerFailed) {
      this.end(id);
      listener.failed(new PlimsollError('internal', 'no token could be sampled for this request'));
      return;
    }
    if ((flags & SAMPLE_FLAG.endOfGeneration) === 0) listener.token(sample);
    if ((flags & SAMPLE_FLAGS_DONE) === 0) return;
    this.end(id);
    listener.finished(flags & SAMPLE_FLAG.endOfGeneration ? 'stop' : 'length');
  }

  private onNotice(id: number, kind: number, a: number): void {
    const listener = this.listeners.get(id);
    if (!listener) return;
    if (kind === NOTICE_KIND.started) listener.started?.(a);
    else if (kind === NOTICE_KIND.progress) listener.progress?.(a);
    else if (kind === NOTICE_KIND.finished) {
      this.end(id);
      if (a === FINISH_CODE.cancelled) listener.finished('cancelled');
      else listener.failed(finishError(a));
    }
  }

  private end(id: number): void {
    this.listeners.delete(id);
    this.unsentCancels.delete(id);
    if (this.listeners.size > 0) return;
    this.whenIdle?.();
    this.idleHandler?.();
  }
}

function queueFull(active: number): PlimsollError {
  return new PlimsollError(
    'queue_full',
    `${active} requests are running or waiting and the queue takes no more; try again later`,
    {
      retryAfterSeconds: 1,
    },
  );
}
