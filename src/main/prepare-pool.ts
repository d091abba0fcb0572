import { availableParallelism } from 'node:os';
import PQueue from 'p-queue';
import { Piscina } from 'piscina';
import { PlimsollError } from '../shared/errors.js';
import type { WorkerPipeline } from './pipeline.js';
import type { ChatPrompt, PrepareJob, PreparePool, PrepareResult } from './prepare-types.js';

export interface PreparePoolOptions {
  /** ModelInfo.handle: how a worker finds the loaded model's vocabulary. */
  modelHandle: number;
  /** Prompts of conversations come with their boundaries: for models that need checkpoints there. */
  findsBoundaries?: boolean;
  /** Chosen by default: half of the cores, 1 to 4. Templates and tokenizers are fast; the engine needs the cores more. */
  threads?: number;
  /** Jobs that may wait, beyond those at work. Chosen: at some ms a job, a wait of seconds. */
  queueLimit?: number;
  /** Longest time of one job, ms. */
  jobTimeoutMs?: number;
  /** A worker died while it had nothing to do; another takes its place. */
  onWorkerError?: (error: Error) => void;
  /** Another worker file, for tests. */
  workerUrl?: URL;
}

const QUEUE_LIMIT = 512;
/** Seconds until a full queue has surely moved. Chosen. */
const RETRY_AFTER_SECONDS = 1;
/**
 * After this a job's client gets an answer without it. Chosen: a million tokens take some seconds; only a template that does not end
 * takes this long. Its worker is lost until the template ends: native code cannot be interrupted.
 */
const JOB_TIMEOUT_MS = 30_000;

/** What the pool beside a pipeline must know of its model. */
export function prepareOptionsOf({ model, takesCheckpoints }: WorkerPipeline): PreparePoolOptions {
  return { modelHandle: model.handle, findsBoundaries: takesCheckpoints };
}

/**
 * Piscina over src/workers/prepare-worker.ts. It may restart a worker without anyone noticing: right for stateless work, and the
 * reason why nothing else uses it. Jobs wait in a queue of ours: Piscina aborts a running task by terminating its worker, and a client
 * that goes away is no reason to open the vocabulary anew.
 */
export class WorkerPreparePool implements PreparePool {
  private readonly pool: Piscina<PrepareJob, PrepareResult>;
  private readonly queue: PQueue;
  private readonly queueLimit: number;
  private readonly jobTimeoutMs: number;
  private readonly findsBoundaries: boolean;

  constructor(options: PreparePoolOptions) {
    const threads = options.threads ?? Math.min(4, Math.max(1, availableParallelism() >> 1));
    this.findsBoundaries = options.findsBoundaries ?? false;
    this.queueLimit = options.queueLimit ?? QUEUE_LIMIT;
    this.jobTimeoutMs = options.jobTimeoutMs ?? JOB_TIMEOUT_MS;
    this.queue = new PQueue({ concurrency: threads });
    this.pool = new Piscina({
      filename: (options.workerUrl ?? new URL('../workers/prepare-worker.js', import.meta.url)).href,
      // One is kept, so that a quiet server answers at once; the others come with load.
      minThreads: 1,
      maxThreads: threads,
      idleTimeout: 30_000,
      // A worker that spins on an atomic for its next job would take a core from the engine.
      atomics: 'disabled',
      workerData: { modelHandle: options.modelHandle },
    });
    // A worker that dies between jobs is replaced. Without a listener its death would be the process's.
    this.pool.on('error', (error: Error) => options.onWorkerError?.(error));
  }

  /** Starts the first worker and its vocabulary, so that the first request does not pay for it. @throws what the worker threw. */
  async warmUp(): Promise<void> {
    await this.pool.run({ kind: 'text', text: 'warm', addSpecial: false, parseSpecial: false });
  }

  async chat(inputsJson: string, signal: AbortSignal): Promise<ChatPrompt> {
    const { findsBoundaries } = this;
    const { tokens, boundaries = [] } = await this.run(
      { kind: 'chat', inputsJson, findsBoundaries },
      'messages',
      signal,
    );
    return { tokens, boundaries };
  }

  async text(
    text: string,
    options: { addSpecial: boolean; parseSpecial: boolean },
    signal: AbortSignal,
  ): Promise<Int32Array> {
    return (await this.run({ kind: 'text', text, ...options }, 'prompt', signal)).tokens;
  }

  async render(inputsJson: string, signal: AbortSignal): Promise<string> {
    return (await this.run({ kind: 'render', inputsJson }, 'messages', signal)).text;
  }

  async checkGrammar(grammar: string, signal: AbortSignal): Promise<void> {
    await this.run({ kind: 'grammar', grammar }, 'grammar', signal);
  }

  close(): Promise<void> {
    this.queue.clear();
    return this.pool.destroy();
  }

  private async run(job: PrepareJob, param: string, signal: AbortSignal) {
    if (this.queue.size >= this.queueLimit) {
      throw new PlimsollError('queue_full', 'Too many requests are being prepared. Try again later.', {
        retryAfterSeconds: RETRY_AFTER_SECONDS,
      });
    }
    const result = await this.answerOrEnd(job, param, signal);
    if (!result.ok) throw new PlimsollError('invalid_request', result.message, { param });
    return result;
  }

  /** The job's result, unless its client goes or its time is up first. Its place in the queue is its own until it really ends. */
  private answerOrEnd(job: PrepareJob, param: string, signal: AbortSignal): Promise<PrepareResult> {
    return new Promise((resolve, reject) => {
      let timer: NodeJS.Timeout | undefined;
      const late = () =>
        reject(new PlimsollError('invalid_request', 'Preparing this request took too long.', { param }));
      const onAbort = () => reject(signal.reason);
      signal.addEventListener('abort', onAbort, { once: true });
      const task = async () => {
        signal.throwIfAborted();
        timer = setTimeout(late, this.jobTimeoutMs);
        return this.pool.run(job);
      };
      const cleanUp = () => {
        clearTimeout(timer);
        signal.removeEventListener('abort', onAbort);
      };
      this.queue.add(task).then(resolve, reject).finally(cleanUp);
    });
  }
}
