import { setTimeout as sleep } from 'node:timers/promises';
import { MessageChannel, Worker } from 'node:worker_threads';
import { CONTROL, FLUSH, PEER_STATE, STOP } from '../shared/control-layout.js';
import { LINK_BYTES } from '../shared/disk-link.js';
import { heartbeatAgeMs, heartbeatNow } from '../shared/heartbeat.js';
import { bellOf, type CoreBuffers, type RingBuffers } from '../shared/pipeline-buffers.js';
import type { DiskOptions } from '../workers/disk-loop.js';
import type { OverlapOptions } from '../workers/overlap-options.js';
import type {
  DiskAccess,
  DiskData,
  ForwardData,
  ForwardReady,
  FromDisk,
  FromForward,
  FromOverlap,
  OverlapData,
  ToForward,
  ToOverlap,
  WorkerLogLevel,
} from '../workers/worker-messages.js';
import { takeForwardThread } from './forward-thread.js';
import { StartError } from './start-error.js';

/** How long a silence is taken for life, ms. */
export interface WatchLimits {
  intervalMs: number;
  /** A thread outside the engine beats at least four times a second. */
  silentMs: number;
  /** One call into the engine is one step. */
  engineSilentMs: number;
  /** How long a worker may take to say goodbye before it is terminated. It ends between two steps. */
  goodbyeMs: number;
}

/** Chosen: long enough for a machine that swaps, and for 2048 tokens of a 30 GB model on two cores. */
export const WATCH_DEFAULTS: WatchLimits = {
  intervalMs: 1_000,
  silentMs: 15_000,
  engineSilentMs: 300_000,
  goodbyeMs: 10_000,
};
/** Chosen: a shutdown is not waited for by the millisecond. */
const FLUSH_POLL_MS = 10;
/** The watch itself came this late: the machine slept, and every heartbeat is old for that reason. */
const WATCH_LATE_MS = 5_000;

export interface WorkerSetEvents {
  progress(fraction: number): void;
  log(level: WorkerLogLevel, message: string): void;
  /** Once, and never after `stop`: a worker died, failed, or hangs. */
  fatal(message: string): void;
}

/** The two workers of a pipeline: start, watch, stop. A worker's death marks it dead for its peer and wakes everyone. */
export class WorkerSet {
  private readonly control: Int32Array;
  private readonly forward: Worker;
  private readonly overlap: Worker;
  private readonly exits: Promise<unknown>[] = [];
  /** null: there is no disk tier, or no more. */
  private disk: Worker | null = null;
  private diskOpened: Promise<void> = Promise.resolve();
  private watch: NodeJS.Timeout | null = null;
  private watchedAtMs = 0;
  private isStopping = false;
  private stopping: Promise<void> | null = null;
  private hasFailed = false;

  constructor(
    private readonly core: CoreBuffers,
    data: ForwardData,
    private readonly events: WorkerSetEvents,
    private readonly limits: WatchLimits = WATCH_DEFAULTS,
  ) {
    this.control = new Int32Array(core.control);
    const overlapData: OverlapData = { core, fake: data.fake };
    this.forward = takeForwardThread();
    this.forward.postMessage(data);
    this.overlap = new Worker(new URL('../workers/overlap-worker.js', import.meta.url), {
      name: 'plimsoll-overlap',
      workerData: overlapData,
    });
    this.exits.push(this.watchWorker(this.forward, 'forward'), this.watchWorker(this.overlap, 'overlap'));
  }

  /** Resolves when the model is loaded and its context stands. @throws StartError. */
  ready(): Promise<ForwardReady> {
    return new Promise((resolve, reject) => {
      this.forward.on('message', (message: FromForward) => {
        if (message.type === 'progress') this.events.progress(message.fraction);
        else if (message.type === 'log') this.events.log(message.level, message.message);
        else if (message.type === 'ready') resolve(message);
        else if (message.type === 'refused') reject(StartError.refused(message.refusal));
        else if (message.type === 'failed') {
          reject(new StartError(message.code, message.message));
          this.fail(`the forward worker failed: ${message.message}`);
        }
      });
      this.forward.once('error', (error) => reject(new StartError('failed', error.message)));
      this.forward.once('exit', (code) =>
        reject(new StartError('failed', `the forward worker ended with code ${code} while it started`)),
      );
    });
  }

  /** Hands out the rings: from here on the loops run. `disk`: what the disk worker is to do; null: there is none. */
  start(rings: RingBuffers, options: OverlapOptions, diskOptions: DiskOptions | null = null): void {
    const disk = diskOptions ? this.startDisk(diskOptions) : null;
    const toForward: ToForward = { type: 'rings', rings, diskLink: disk?.link ?? null };
    const toOverlap: ToOverlap = { type: 'start', rings, options, disk };
    Atomics.store(this.control, CONTROL.forwardHeartbeat, heartbeatNow());
    Atomics.store(this.control, CONTROL.overlapHeartbeat, heartbeatNow());
    this.forward.postMessage(toForward);
    this.overlap.postMessage(toOverlap, disk ? [disk.port] : []);
    this.watchedAtMs = performance.now();
    this.watch = setInterval(() => this.checkHeartbeats(), this.limits.intervalMs);
    this.watch.unref();
  }

  private startDisk(options: DiskOptions): DiskAccess {
    const { port1, port2 } = new MessageChannel();
    const link = new SharedArrayBuffer(LINK_BYTES);
    const data: DiskData = { core: this.core, link, port: port1, options };
    const worker = new Worker(new URL('../workers/disk-worker.js', import.meta.url), {
      name: 'plimsoll-disk',
      workerData: data,
      transferList: [port1],
    });
    this.diskOpened = new Promise((resolve) => {
      worker.on('message', (message: FromDisk) => {
        if (message.type === 'log') this.events.log(message.level, message.message);
        else resolve();
      });
      worker.on('exit', () => resolve());
    });
    // Nobody waits for it for longer than a read may take: the server goes on.
    worker.on('error', (error) => this.events.log('error', `the disk worker died: ${error.stack ?? error.message}`));
    this.exits.push(
      new Promise<void>((resolve) => {
        worker.on('exit', () => {
          this.disk = null;
          resolve();
        });
      }),
    );
    this.disk = worker;
    return { link, port: port2 };
  }

  /** Resolves when it is known what is on the disk, or cannot be, or after `timeoutMs`. */
  async opened(timeoutMs: number): Promise<void> {
    const patience = new AbortController();
    await Promise.race([this.diskOpened, sleep(timeoutMs, undefined, patience)]).finally(() => patience.abort());
  }

  /** Idle prefixes are written to disk, as far as `timeoutMs` reaches. Call before `stop`, when nothing runs. */
  async flush(timeoutMs: number): Promise<void> {
    if (this.disk === null || this.hasFailed) return;
    const untilMs = performance.now() + timeoutMs;
    Atomics.store(this.control, CONTROL.flush, FLUSH.asked);
    this.wakeAll();
    while (Atomics.load(this.control, CONTROL.flush) !== FLUSH.done && this.disk !== null && !this.hasFailed) {
      if (performance.now() >= untilMs) return;
      await sleep(FLUSH_POLL_MS);
    }
  }

  /** Raises the stop word and waits for both goodbyes; a worker that gives none in time is terminated. */
  stop(): Promise<void> {
    this.stopping ??= this.stopWorkers();
    return this.stopping;
  }

  private async stopWorkers(): Promise<void> {
    this.isStopping = true;
    Atomics.store(this.control, CONTROL.stop, STOP.now);
    Atomics.store(this.control, CONTROL.abortDecode, 1);
    this.wakeAll();
    // A worker that never got its rings waits for a message, not for the stop word; one that loads a model looks at the stop word.
    if (this.watch === null) await this.overlap.terminate();
    else clearInterval(this.watch);
    const deadline = new Promise((resolve) => setTimeout(resolve, this.limits.goodbyeMs, 'late').unref());
    if ((await Promise.race([Promise.all(this.exits), deadline])) === 'late') {
      this.events.log('warn', `a worker did not stop within ${this.limits.goodbyeMs} ms and is terminated`);
      await Promise.all([this.forward.terminate(), this.overlap.terminate(), this.disk?.terminate()]);
    }
  }

  private watchWorker(worker: Worker, name: 'forward' | 'overlap'): Promise<void> {
    worker.on('error', (error) => this.fail(`the ${name} worker died: ${error.stack ?? error.message}`));
    worker.on('message', (message: FromForward | FromOverlap) => {
      if (name !== 'overlap') return;
      if (message.type === 'failed') this.fail(`the overlap worker failed: ${message.message}`);
      if (message.type === 'log') this.events.log(message.level, message.message);
    });
    return new Promise((resolve) => {
      worker.on('exit', (code) => {
        const state = name === 'forward' ? CONTROL.forwardState : CONTROL.overlapState;
        if (Atomics.load(this.control, state) !== PEER_STATE.ended) Atomics.store(this.control, state, PEER_STATE.dead);
        this.fail(`the ${name} worker ended with code ${code}`);
        resolve();
      });
    });
  }

  private fail(message: string): void {
    if (this.isStopping || this.hasFailed) return;
    this.hasFailed = true;
    if (this.watch) clearInterval(this.watch);
    Atomics.store(this.control, CONTROL.stop, STOP.now);
    Atomics.store(this.control, CONTROL.abortDecode, 1);
    this.wakeAll();
    this.events.fatal(message);
  }

  private checkHeartbeats(): void {
    const nowMs = performance.now();
    const isLate = nowMs - this.watchedAtMs > this.limits.intervalMs + WATCH_LATE_MS;
    this.watchedAtMs = nowMs;
    if (isLate) return;
    const inEngine = Atomics.load(this.control, CONTROL.forwardInEngine) !== 0;
    const forwardAge = heartbeatAgeMs(Atomics.load(this.control, CONTROL.forwardHeartbeat));
    const overlapAge = heartbeatAgeMs(Atomics.load(this.control, CONTROL.overlapHeartbeat));
    if (forwardAge > (inEngine ? this.limits.engineSilentMs : this.limits.silentMs)) {
      this.fail(
        `the forward worker hangs${inEngine ? ' inside the engine' : ''}: no sign of life for ${forwardAge} ms`,
      );
    } else if (overlapAge > this.limits.silentMs) {
      this.fail(`the overlap worker hangs: no sign of life for ${overlapAge} ms`);
    }
  }

  private wakeAll(): void {
    for (const thread of ['main', 'overlap', 'forward', 'disk'] as const) bellOf(this.core, thread).ring();
  }
}
