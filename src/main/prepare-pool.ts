import { availableParallelism } from 'node:os';
import { Piscina } from 'piscina';
import { PlimsollError } from '../shared/errors.js';
import type { PrepareJob, PreparePool, PrepareResult } from './prepare-types.js';

export interface PreparePoolOptions {
  /** ModelInfo.handle: how a worker finds the loaded model's vocabulary. */
  modelHandle: number;
  /** Chosen by default: half of the cores, 1 to 4. Templates and tokenizers are fast; the engine needs the cores more. */
  threads?: number;
  /** Jobs that may wait, beyond those at work. Chosen: at some ms a job, a wait of seconds. */
  queueLimit?: number;
  /** Another worker file, for tests. */
  workerUrl?: URL;
}

const QUEUE_LIMIT = 512;
/** Seconds until a full queue has surely moved. Chosen. */
const RETRY_AFTER_SECONDS = 1;

/**
 * Piscina over src/workers/prepare-worker.ts. It may restart a worker without anyone noticing: right for stateless work, and the
 * reason why nothing else uses it.
 */
export class WorkerPreparePool implements PreparePool {
  private readonly pool: Piscina<PrepareJob, PrepareResult>;
  private readonly queueLimit: number;

  constructor(options: PreparePoolOptions) {
    const threads = options.threads ?? Math.min(4, Math.max(1, availableParallelism() >> 1));
    this.queueLimit = options.queueLimit ?? QUEUE_LIMIT;
    this.pool = new Piscina({
      filename: (options.workerUrl ?? new URL('../workers/prepare-worker.js', import.meta.url)).href,
      // One is kept, so that a quiet server answers at once; the others come with load.
      minThreads: 1,
      maxThreads: threads,
      idleTimeout: 30_000,
      maxQueue: this.queueLimit,
      // A worker that spins on an atomic for its next job would take a core from the engine.
      atomics: 'disabled',
      workerData: { modelHandle: options.modelHandle },
    });
  }

  /** Starts the first worker and its vocabulary, so that the first request does not pay for it. */
  async warmUp(): Promise<void> {
    await this.pool.run({ kind: 'text', text: 'warm', addSpecial: false, parseSpecial: false });
  }

  async chat(inputsJson: string, signal: AbortSignal): Promise<Int32Array> {
    return (await this.run({ kind: 'chat', inputsJson }, 'messages', signal)).tokens;
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
    return this.pool.destroy();
  }

  private async run(job: PrepareJob, param: string, signal: AbortSignal) {
    if (this.pool.queueSize >= this.queueLimit) {
      throw new PlimsollError('queue_full', 'Too many requests are being prepared. Try again later.', {
        retryAfterSeconds: RETRY_AFTER_SECONDS,
      });
    }
    const result = await this.pool.run(job, { signal });
    if (!result.ok) throw new PlimsollError('invalid_request', result.message, { param });
    return result;
  }
}
