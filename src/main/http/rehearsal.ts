import { setImmediate as turn } from 'node:timers/promises';
import { pino } from 'pino';
import type { ModelInfo } from '../../shared/engine.js';
import type { DeviceGauge, SchedulerGauge } from '../../shared/gauges-layout.js';
import type { LoadLineView } from '../load-line-view.js';
import type { GenerationListener, GenerationRequest, Pipeline } from '../pipeline-types.js';
import type { PreparePool } from '../prepare-types.js';
import type { HttpConfig } from './http-config.js';
import { createServer } from './server.js';

/** Requests of a rehearsal. Chosen: the first request took 9 ms longer than the next ones to reach the scheduler, and a start leaves time for some. */
const REQUESTS = 24;
const ANSWER_TOKENS = 8;
const PROMPT_TOKENS = 64;

/**
 * Plays requests against a server of its own that has no model, so that the code of a request is compiled before the first client waits
 * for it. For the time in which the model loads and this thread has nothing else to do: `isOver` ends it. Returns how many were answered.
 */
export async function rehearse(config: HttpConfig, isOver: () => boolean): Promise<number> {
  const app = createServer({
    config: { ...config, apiKeys: [] },
    logger: pino({ level: 'silent' }),
    pipeline: new RehearsalPipeline(),
    prepare: REHEARSAL_PREPARE,
  });
  const prompt = Array.from({ length: PROMPT_TOKENS }, (_, i) => i);
  const sampling = { max_tokens: ANSWER_TOKENS, temperature: 0, stream: true, stream_options: { include_usage: true } };
  const bodies = [
    { url: '/v1/completions', payload: { prompt, ...sampling } },
    { url: '/v1/chat/completions', payload: { messages: [{ role: 'user', content: 'Hello' }], ...sampling } },
  ];
  let answered = 0;
  for (let i = 0; i < REQUESTS && !isOver(); i++) {
    const reply = await app.inject({ method: 'POST', ...bodies[i % bodies.length] });
    if (reply.statusCode === 200) answered++;
    await turn();
  }
  await app.close();
  return answered;
}

/** Answers at once, with tokens of one letter. */
class RehearsalPipeline implements Pipeline {
  readonly model = MODEL;
  readonly contextTokens = 4096;
  readonly pieces = { offsets: Int32Array.from({ length: VOCABULARY + 1 }, (_, i) => i), bytes: LETTERS };
  readonly residence = 'ready';
  readonly activeMax = Number.POSITIVE_INFINITY;
  activeCount = 0;

  submit(_request: GenerationRequest, listener: GenerationListener): number {
    this.activeCount++;
    queueMicrotask(() => {
      listener.started?.(0);
      for (let token = 0; token < ANSWER_TOKENS; token++) listener.token({ token, logprob: Number.NaN, top: [] });
      this.activeCount--;
      listener.finished('length');
    });
    return 1;
  }

  cancel(): void {}

  deviceGauges(): Record<DeviceGauge, number> {
    throw new Error('nobody asks a rehearsal');
  }

  schedulerGauges(): Record<SchedulerGauge, number> {
    throw new Error('nobody asks a rehearsal');
  }

  loadLine(): LoadLineView {
    throw new Error('nobody asks a rehearsal');
  }

  async close(): Promise<void> {}

  onFatal(): void {}
}

const VOCABULARY = 256;
const LETTERS = new Uint8Array(VOCABULARY).fill(97);

const MODEL: ModelInfo = {
  handle: 0,
  description: '',
  architecture: '',
  sizeBytes: 0,
  parameterCount: 0,
  trainContextTokens: 4096,
  layerCount: 0,
  embeddingLength: 0,
  queryHeadCount: 0,
  kvHeadCount: 0,
  vocabularySize: VOCABULARY,
  slidingWindowTokens: 0,
  isRecurrent: false,
  isHybrid: false,
  hasEncoder: false,
  hasDecoder: true,
  canTrim: true,
  chatTemplate: '',
  metadata: {},
};

const REHEARSAL_PREPARE: PreparePool = {
  chat: async () => ({ tokens: new Int32Array(PROMPT_TOKENS), boundaries: [] }),
  text: async () => new Int32Array(PROMPT_TOKENS),
  render: async () => '',
  checkGrammar: async () => {},
  close: async () => {},
};
