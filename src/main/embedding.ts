import { type ConfigInput, parseConfig } from '../shared/config.js';
import type { ModelInfo } from '../shared/engine.js';
import type { DeviceGauge, SchedulerGauge } from '../shared/gauges-layout.js';
import type { SamplingParams } from '../shared/sampling.js';
import type { WorkerLogLevel } from '../workers/worker-messages.js';
import { cacheFolder } from './models/cache-folder.js';
import { resolveModel } from './models/resolve-model.js';
import type { FinishReason, Pipeline, Residence } from './pipeline-types.js';
import { prepareOptionsOf, WorkerPreparePool } from './prepare-pool.js';
import type { ChatPrompt, PreparePool } from './prepare-types.js';
import { ModelResidence } from './residence/model-residence.js';
import { spillFolder } from './spill-folder.js';
import { startPipeline } from './start-pipeline.js';
import { PieceTable } from './streaming/piece-table.js';
import { StopStrings } from './streaming/stop-strings.js';
import { TextStream } from './streaming/text-stream.js';
import { TokenQueue } from './token-queue.js';

/** Settings as on the command line, in camelCase (src/shared/config.ts); those of HTTP have no effect here. */
export interface EngineOptions extends ConfigInput {
  /** While the model loads, 0 to 1. */
  onProgress?: (fraction: number) => void;
  /** Lines of `debug` come where `logLevel` is that or `trace`. */
  onLog?: (level: WorkerLogLevel, message: string) => void;
}

export interface ChatMessage {
  role: 'system' | 'user' | 'assistant' | 'tool';
  content: string;
}

export interface GenerateOptions extends Partial<Omit<SamplingParams, 'logprobs'>> {
  stop?: string[];
  /** Lower runs first. */
  priority?: number;
  /** Aborting cancels the request within a step. */
  signal?: AbortSignal;
}

export interface GeneratedToken {
  token: number;
  /** Text that this token completes: may be empty while a character or a possible stop string is incomplete. */
  text: string;
}

export interface Generation {
  text: string;
  finishReason: FinishReason;
  promptTokens: number;
  completionTokens: number;
}

/** llama.cpp's defaults, as the HTTP API has them. */
const DEFAULTS: SamplingParams = {
  temperature: 0.8,
  topK: 40,
  topP: 0.95,
  minP: 0.05,
  repeatPenalty: 1,
  frequencyPenalty: 0,
  presencePenalty: 0,
  penaltyLastTokens: 64,
  seed: 0,
  maxTokens: 0,
  ignoreEos: false,
  logprobs: -1,
  logitBias: [],
  grammar: '',
};

/**
 * A local model inside a Node program: the same pipeline as the server's, without HTTP.
 *
 * ```js
 * const engine = await Engine.start({ model: 'smollm2-135m-instruct' });
 * for await (const { text } of engine.stream([{ role: 'user', content: 'Hello' }])) process.stdout.write(text);
 * await engine.close();
 * ```
 */
export class Engine {
  private readonly table: PieceTable;

  private readonly pipeline: Pipeline;
  private readonly prepare: PreparePool;

  private constructor(private readonly home: ModelResidence) {
    this.pipeline = home.pipeline;
    this.prepare = home.prepare;
    this.table = new PieceTable(home.pipeline.pieces);
  }

  /** Fetches the model if needed, loads it, plans its memory. @throws ConfigError, ModelError, StartError. */
  static async start({ onProgress, onLog, ...settings }: EngineOptions = {}): Promise<Engine> {
    const config = parseConfig(settings);
    const modelPath = await resolveModel(config.model);
    const load = async (signal: AbortSignal, firstRequestId: number) => {
      const pipeline = await startPipeline({
        config,
        modelPath,
        firstRequestId,
        spillFolder: spillFolder(cacheFolder()),
        signal,
        ...(onProgress && { onProgress }),
        ...(onLog && { log: onLog }),
      });
      return { pipeline, prepare: new WorkerPreparePool(prepareOptionsOf(pipeline)) };
    };
    const residence = await ModelResidence.start(
      {
        load,
        idleUnloadMs: config.idleUnloadMs,
        loadTimeoutMs: config.queueTimeoutMs,
        waitingMax: config.maxQueuedRequests,
        ...(onLog && { log: onLog }),
      },
      new AbortController().signal,
    );
    return new Engine(residence);
  }

  get model(): ModelInfo {
    return this.pipeline.model;
  }

  /** Prompt and output of one request, tokens at most. */
  get contextTokens(): number {
    return this.pipeline.contextTokens;
  }

  /** Live readings and counters; the names carry the units. */
  gauges(): Record<DeviceGauge | SchedulerGauge, number> {
    return { ...this.pipeline.deviceGauges(), ...this.pipeline.schedulerGauges() };
  }

  /** Tokens of an answer as they come. A string is continued as it stands; messages go through the model's chat template. */
  async *stream(
    prompt: string | ChatMessage[],
    options: GenerateOptions = {},
  ): AsyncGenerator<GeneratedToken, Generation> {
    const { tokens: promptTokens, boundaries } = await this.promptOf(prompt, options.signal);
    const queue = new TokenQueue();
    const sampling = this.samplingOf(options, promptTokens.length);
    // What is wrong with the options is told before anything runs.
    const stream = new TextStream(this.table, options.stop ? new StopStrings(options.stop) : null);
    const id = this.pipeline.submit(
      { promptTokens, boundaries, sampling, ...(options.priority !== undefined && { priority: options.priority }) },
      queue,
    );
    const cancel = () => this.pipeline.cancel(id);
    options.signal?.addEventListener('abort', cancel, { once: true });
    let text = '';
    let completionTokens = 0;
    try {
      for await (const { token } of queue) {
        completionTokens++;
        const piece = stream.push(token);
        text += piece;
        yield { token, text: piece };
        if (stream.stopped) break;
      }
      const rest = stream.end();
      text += rest;
      if (rest !== '') yield { token: -1, text: rest };
      const finishReason = stream.stopped ? 'stop' : queue.reason;
      return { text, finishReason, promptTokens: promptTokens.length, completionTokens };
    } finally {
      // Also when the consumer breaks out of its loop.
      cancel();
      options.signal?.removeEventListener('abort', cancel);
    }
  }

  /** The whole answer at once. */
  async generate(prompt: string | ChatMessage[], options: GenerateOptions = {}): Promise<Generation> {
    const stream = this.stream(prompt, options);
    for (;;) {
      const step = await stream.next();
      if (step.done) return step.value;
    }
  }

  /** What of the model is in memory now (`idleReleaseMs`, `idleUnloadMs`). */
  get residence(): Residence {
    return this.pipeline.residence;
  }

  /** Lets running requests finish for up to `timeoutMs`, then frees everything. */
  async close(timeoutMs = 10_000): Promise<void> {
    await this.home.close(timeoutMs);
  }

  private async promptOf(prompt: string | ChatMessage[], signal = new AbortController().signal): Promise<ChatPrompt> {
    if (typeof prompt === 'string') {
      const tokens = await this.prepare.text(prompt, { addSpecial: true, parseSpecial: false }, signal);
      return { tokens, boundaries: [] };
    }
    return this.prepare.chat(JSON.stringify({ messages: prompt, addGenerationPrompt: true }), signal);
  }

  private samplingOf(options: GenerateOptions, promptTokens: number): SamplingParams {
    const { stop, priority, signal, ...chosen } = options;
    const seed = chosen.seed ?? Math.floor(Math.random() * 2 ** 31);
    const maxTokens = chosen.maxTokens ?? Math.max(1, this.contextTokens - promptTokens);
    return { ...DEFAULTS, ...chosen, seed, maxTokens };
  }
}
