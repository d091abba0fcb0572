import { setTimeout as sleep } from 'node:timers/promises';
import type { Config } from '../shared/config.js';
import { PlimsollError } from '../shared/errors.js';
import { GaugeReader } from '../shared/gauges.js';
import { DEVICE_GAUGES, type DeviceGauge, SCHEDULER_GAUGES, type SchedulerGauge } from '../shared/gauges-layout.js';
import { bellOf, createRingBuffers } from '../shared/pipeline-buffers.js';
import { SAMPLE_FLAG, SAMPLE_FLAGS_DONE } from '../shared/step-output.js';
import { FINISH_CODE, NOTICE_KIND } from '../shared/token-wire.js';
import type { OverlapOptions } from '../workers/overlap-options.js';
import type { ForwardData, ForwardReady } from '../workers/worker-messages.js';
import { finishError } from './finish-error.js';
import { type LoadLineView, loadLineView, residenceOf } from './load-line-view.js';
import type { OpenedDisk } from './open-disk.js';
import { hostPrefixBytesMax, ladderLimits, limitsOf } from './pipeline-limits.js';
import type { GenerationListener, GenerationRequest, Pipeline, Residence, SampledToken } from './pipeline-types.js';
import { SubmitWriter } from './submit-writer.js';
import { TokenReader } from './token-reader.js';
import type { WorkerSet } from './worker-set.js';

/** Records taken before sockets get their turn. Chosen: some milliseconds of work. */
const DRAIN_RECORDS = 256;
/** The token reader looks up at least this often: cancels that found the ring full are tried again. Chosen. */
const READ_INTERVAL_MS = 250;
/** Steps that follow each other faster than this are taken together: a wake-up costs the forward worker more than such a step. Chosen. */
const BUSY_INTERVAL_MS = 1;
/** Idle prefixes are written to disk at a shutdown for so long. Chosen: some GB on a fast disk; the supervisor waits for four times that. */
const FLUSH_MS = 5_000;
/** Cancelled requests leave within a step or two. Chosen. */
const CANCEL_GRACE_MS = 2_000;

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
