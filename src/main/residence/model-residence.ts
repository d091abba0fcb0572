import { PlimsollError } from '../../shared/errors.js';
import type { WorkerPipeline } from '../pipeline.js';
import type { PreparePool } from '../prepare-types.js';
import { StartError } from '../start-error.js';
import { GaugeCarry } from './gauge-carry.js';
import { ResidentPipeline } from './resident-pipeline.js';
import { ResidentPrepare } from './resident-prepare.js';

/** A model in memory, and all threads that hold it. */
export interface LoadedModel {
  pipeline: WorkerPipeline;
  prepare: PreparePool;
}

export interface ResidenceOptions {
  /** Loads the model, at the start and each time again. `firstRequestId` is for the pipeline. */
  load: (signal: AbortSignal, firstRequestId: number) => Promise<LoadedModel>;
  /** Nothing asked of the model for so long: its memory is given back. 0: never. */
  idleUnloadMs: number;
  /** How long a request waits for the model to come back. */
  loadTimeoutMs: number;
  /** Requests that may wait for that beside those that may run. */
  waitingMax: number;
  /** After a load that failed, requests hear of it at once for so long, instead of each trying the same again. */
  failedPauseMs?: number;
  log?: (level: 'info' | 'warn' | 'error', message: string) => void;
}

type State =
  | { is: 'loaded'; model: LoadedModel }
  | { is: 'unloading'; done: Promise<void> }
  | { is: 'unloaded' }
  | { is: 'loading'; started: Promise<LoadedModel> }
  | { is: 'closed' };

/** Chosen: what others took comes back in seconds, and a start that fails costs about one. */
const FAILED_PAUSE_MS = 2_000;

/**
 * Whether the model is in memory. After a time without a request all threads that hold it end, so that weights, contexts and vocabulary go
 * back to the system; the next request starts them again and waits, and those that come meanwhile wait for the same start. To the rest of
 * the program it is one pipeline and one prepare pool all along.
 *
 * ```
 *   loaded ──idle──▶ unloading ──▶ unloaded ──a request──▶ loading ──▶ loaded
 *                        └────────────a request──────────────▲ │
 *                                       unloaded ◀── failed ───┘
 * ```
 */
export class ModelResidence {
  readonly pipeline: ResidentPipeline;
  readonly prepare: ResidentPrepare;
  readonly carry = new GaugeCarry();
  private state: State;
  /** Who keeps the model from being unloaded, beside the requests in the pipeline. */
  private holderCount = 0;
  private waitingCount = 0;
  private timer: NodeJS.Timeout | null = null;
  private failure: { error: PlimsollError; untilMs: number } | null = null;
  private readonly closing = new AbortController();
  private closed: Promise<void> | null = null;
  private fatalError: PlimsollError | null = null;
  private fatalHandler: ((error: PlimsollError) => void) | null = null;

  /** Loads the model for the first time. @throws what `load` throws. */
  static async start(options: ResidenceOptions, signal: AbortSignal): Promise<ModelResidence> {
    return new ModelResidence(options, await options.load(signal, 1));
  }

  private constructor(
    private readonly options: ResidenceOptions,
    first: LoadedModel,
  ) {
    this.state = { is: 'loaded', model: first };
    this.pipeline = new ResidentPipeline(this, first.pipeline);
    this.prepare = new ResidentPrepare(this);
    this.adopt(first);
  }

  /** null while it is not in memory. */
  get model(): LoadedModel | null {
    return this.state.is === 'loaded' ? this.state.model : null;
  }

  get isLoading(): boolean {
    return this.state.is === 'loading';
  }

  /** The model, loaded again if need be. @throws PlimsollError draining, queue_full, loading, insufficient_memory; the signal's reason. */
  async loaded(signal?: AbortSignal): Promise<LoadedModel> {
    signal?.throwIfAborted();
    if (this.state.is === 'loaded') return this.state.model;
    if (this.state.is === 'closed') throw new PlimsollError('draining', 'The server is shutting down.');
    if (this.waitingCount >= this.options.waitingMax + this.pipeline.runningCap) {
      throw new PlimsollError(
        'queue_full',
        `${this.waitingCount} requests wait for the model to be loaded; try again later`,
      );
    }
    this.waitingCount++;
    try {
      return await this.within(this.started(), signal);
    } finally {
      this.waitingCount--;
    }
  }

  /** Keeps the model in memory, or what is being loaded, until the function that is returned is called. */
  hold(): () => void {
    this.holderCount++;
    this.disarm();
    return () => {
      this.holderCount--;
      this.armWhenIdle();
    };
  }

  /** A request has been given to the pipeline. */
  touched(): void {
    this.disarm();
  }

  onFatal(handler: (error: PlimsollError) => void): void {
    this.fatalHandler = handler;
    if (this.fatalError) handler(this.fatalError);
  }

  /** Ends all threads, after running requests had `timeoutMs`; whoever waits for the model gets `draining`. */
  close(timeoutMs: number): Promise<void> {
    this.closed ??= this.closeNow(timeoutMs);
    return this.closed;
  }

  private async closeNow(timeoutMs: number): Promise<void> {
    const before = this.state;
    this.state = { is: 'closed' };
    this.disarm();
    this.closing.abort();
    if (before.is === 'loaded') await closeModel(before.model, timeoutMs);
    else if (before.is === 'unloading') await before.done;
    else if (before.is === 'loading') await before.started.catch(() => {});
  }

  private started(): Promise<LoadedModel> {
    if (this.state.is === 'loading') return this.state.started;
    if (this.failure !== null && performance.now() < this.failure.untilMs) throw this.failure.error;
    const started = this.loadAgain(this.state.is === 'unloading' ? this.state.done : Promise.resolve());
    // Everyone who waits hears of a failure; that nobody waits any more is no reason to end the process.
    started.catch(() => {});
    this.state = { is: 'loading', started };
    return started;
  }

  private async loadAgain(unloaded: Promise<void>): Promise<LoadedModel> {
    await unloaded;
    const fromMs = performance.now();
    this.log('info', 'a request has come: the model is loaded again');
    try {
      const model = await this.options.load(this.closing.signal, this.pipeline.nextRequestId);
      if (this.state.is === 'closed') {
        await closeModel(model, 0);
        throw new PlimsollError('draining', 'The server is shutting down.');
      }
      this.failure = null;
      this.state = { is: 'loaded', model };
      this.adopt(model);
      this.log('info', `the model is loaded again, after ${Math.round(performance.now() - fromMs)} ms`);
      return model;
    } catch (thrown) {
      if (this.state.is === 'closed') throw new PlimsollError('draining', 'The server is shutting down.');
      const pauseMs = this.options.failedPauseMs ?? FAILED_PAUSE_MS;
      const error = loadError(thrown, pauseMs);
      this.failure = { error, untilMs: performance.now() + pauseMs };
      this.state = { is: 'unloaded' };
      this.log('error', error.message);
      throw error;
    }
  }

  private adopt({ pipeline }: LoadedModel): void {
    this.pipeline.remember(pipeline);
    pipeline.onIdle(() => this.armWhenIdle());
    pipeline.onFatal((error) => {
      this.fatalError = error;
      this.disarm();
      this.fatalHandler?.(error);
    });
    this.armWhenIdle();
  }

  private get isIdle(): boolean {
    return this.state.is === 'loaded' && this.holderCount === 0 && this.pipeline.activeCount === 0;
  }

  private armWhenIdle(): void {
    this.disarm();
    if (this.options.idleUnloadMs === 0 || this.fatalError !== null || !this.isIdle) return;
    this.timer = setTimeout(() => {
      if (this.isIdle) this.unload();
    }, this.options.idleUnloadMs);
    this.timer.unref();
  }

  private disarm(): void {
    if (this.timer) clearTimeout(this.timer);
    this.timer = null;
  }

  private unload(): void {
    if (this.state.is !== 'loaded') return;
    const { model } = this.state;
    this.carry.add(model.pipeline);
    this.pipeline.remember(model.pipeline);
    this.log('info', `no request for ${this.options.idleUnloadMs / 1000} s: the model is unloaded until the next one`);
    this.state = { is: 'unloading', done: this.giveBack(model) };
  }

  private async giveBack(model: LoadedModel): Promise<void> {
    const fromMs = performance.now();
    await closeModel(model, 0).catch((error: Error) => this.log('warn', `unloading the model: ${error.message}`));
    this.log('info', `the model's memory is given back, after ${Math.round(performance.now() - fromMs)} ms`);
    if (this.state.is === 'unloading') this.state = { is: 'unloaded' };
  }

  private within<T>(promise: Promise<T>, signal?: AbortSignal): Promise<T> {
    return new Promise((resolve, reject) => {
      const onAbort = () => reject(signal?.reason);
      const seconds = this.options.loadTimeoutMs / 1000;
      const late = () => reject(new PlimsollError('loading', `The model was not loaded again within ${seconds} s.`));
      const timer = setTimeout(late, this.options.loadTimeoutMs);
      signal?.addEventListener('abort', onAbort, { once: true });
      promise.then(resolve, reject).finally(() => {
        clearTimeout(timer);
        signal?.removeEventListener('abort', onAbort);
      });
    });
  }

  private log(level: 'info' | 'warn' | 'error', message: string): void {
    this.options.log?.(level, message);
  }
}

/** The model is freed when both are gone: the pool's threads have its vocabulary open, which keeps it. */
async function closeModel({ pipeline, prepare }: LoadedModel, timeoutMs: number): Promise<void> {
  await pipeline.close(timeoutMs);
  await prepare.close();
}

/** For the clients that waited: the server lives, and its next attempt may find what this one did not. */
function loadError(thrown: unknown, pauseMs: number): PlimsollError {
  const isShort = thrown instanceof StartError && (thrown.refusal !== null || thrown.code === 'out_of_memory');
  const what = thrown instanceof Error ? thrown.message : String(thrown);
  return new PlimsollError(
    isShort ? 'insufficient_memory' : 'loading',
    `The model could not be loaded again: ${what}`,
    { retryAfterSeconds: Math.ceil(pauseMs / 1000), cause: thrown },
  );
}
