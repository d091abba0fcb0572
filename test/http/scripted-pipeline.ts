import type { LoadLineView } from '../../src/main/load-line-view.js';
import type {
  FinishReason,
  GenerationListener,
  GenerationRequest,
  Pipeline,
  Residence,
  SampledToken,
} from '../../src/main/pipeline-types.js';
import type { ModelInfo } from '../../src/shared/engine.js';
import type { PlimsollError } from '../../src/shared/errors.js';
import {
  DEVICE_GAUGES,
  type DeviceGauge,
  SCHEDULER_GAUGES,
  type SchedulerGauge,
} from '../../src/shared/gauges-layout.js';
import { FAKE_CHAT_TEMPLATE, FAKE_VOCABULARY_SIZE, FakeVocabulary } from '../../src/workers/fake-vocabulary.js';

export const vocabulary = new FakeVocabulary();

/** One submitted request, played by hand: every event of its listener happens when the test says so. */
export class ScriptedRequest {
  isCancelled = false;
  constructor(
    readonly id: number,
    readonly request: GenerationRequest,
    readonly listener: GenerationListener,
    private readonly forget: (id: number) => void,
  ) {}

  /** Starts, and gives the text's tokens one by one. */
  say(text: string): void {
    this.tokens(vocabulary.tokenize(text, false, false));
  }

  tokens(tokens: Iterable<number>): void {
    for (const token of tokens) this.token({ token, logprob: Number.NaN, top: [] });
  }

  token(sample: SampledToken): void {
    this.listener.token(sample);
  }

  start(cachedTokens = 0): void {
    this.listener.started?.(cachedTokens);
  }

  finish(reason: FinishReason = 'stop'): void {
    this.forget(this.id);
    this.listener.finished(reason);
  }

  fail(error: PlimsollError): void {
    this.forget(this.id);
    this.listener.failed(error);
  }

  cancel(): void {
    this.isCancelled = true;
    this.forget(this.id);
    this.listener.finished('cancelled');
  }
}

type Waiter = { count: number; resolve: () => void };

/** A pipeline without threads, whose requests are played by the test, or by `onSubmit` as they come. */
export class ScriptedPipeline implements Pipeline {
  readonly model = MODEL;
  contextTokens = 4096;
  activeMax = 544;
  residence: Residence = 'ready';
  readonly pieces = vocabulary.pieces(false);
  readonly requests: ScriptedRequest[] = [];
  refusal: PlimsollError | null = null;
  onSubmit: ((request: ScriptedRequest) => void) | null = null;
  private readonly active = new Set<number>();
  private readonly submitWaiters: Waiter[] = [];
  private readonly cancelWaiters: Waiter[] = [];
  private cancelCount = 0;

  submit(request: GenerationRequest, listener: GenerationListener): number {
    if (this.refusal !== null) throw this.refusal;
    const id = this.requests.length + 1;
    const scripted = new ScriptedRequest(id, request, listener, (over) => this.active.delete(over));
    this.requests.push(scripted);
    this.active.add(id);
    wake(this.submitWaiters, this.requests.length);
    if (this.onSubmit !== null) setImmediate(this.onSubmit, scripted);
    return id;
  }

  cancel(id: number): void {
    if (!this.active.has(id)) return;
    this.requests[id - 1].cancel();
    wake(this.cancelWaiters, ++this.cancelCount);
  }

  /** Resolves when `count` requests have been submitted, with the last of them. */
  async submitted(count = 1): Promise<ScriptedRequest> {
    await reached(this.submitWaiters, count, this.requests.length);
    return this.requests[count - 1];
  }

  /** Resolves when `count` running requests have been cancelled. */
  async cancelled(count = 1): Promise<void> {
    await reached(this.cancelWaiters, count, this.cancelCount);
  }

  get activeCount(): number {
    return this.active.size;
  }

  deviceGauges(): Record<DeviceGauge, number> {
    return Object.fromEntries(DEVICE_GAUGES.map((field, i) => [field, i + 1])) as Record<DeviceGauge, number>;
  }

  loadLine(): LoadLineView {
    return {
      residence: this.residence,
      plan: {
        layout: 'shared',
        running_cap: 4,
        context_tokens: this.contextTokens,
        pool_tokens: this.contextTokens,
        chunk_tokens: 64,
        cost_source: 'exact',
        margin_bytes: 0,
        reasons: [],
      },
      probe: { ran: false, chunk_tokens: 0, runtime_extra_bytes: 0, sentence: 'scripted' },
      ladder: [],
      ledger: { owners: {}, total_bytes: 0, unexplained_bytes: 0, alarm: false },
    };
  }

  schedulerGauges(): Record<SchedulerGauge, number> {
    return Object.fromEntries(SCHEDULER_GAUGES.map((field, i) => [field, i + 1])) as Record<SchedulerGauge, number>;
  }

  async close(): Promise<void> {}

  onFatal(): void {}
}

function reached(waiters: Waiter[], count: number, now: number): Promise<void> {
  if (now >= count) return Promise.resolve();
  return new Promise((resolve) => waiters.push({ count, resolve }));
}

function wake(waiters: Waiter[], now: number): void {
  for (const waiter of waiters) if (now >= waiter.count) waiter.resolve();
}

const MODEL: ModelInfo = {
  handle: 1,
  description: 'fake',
  architecture: 'fake',
  sizeBytes: 1,
  parameterCount: 1,
  trainContextTokens: 4096,
  layerCount: 1,
  embeddingLength: 1,
  queryHeadCount: 1,
  kvHeadCount: 1,
  vocabularySize: FAKE_VOCABULARY_SIZE,
  slidingWindowTokens: 0,
  isRecurrent: false,
  isHybrid: false,
  hasEncoder: false,
  hasDecoder: true,
  canTrim: true,
  chatTemplate: FAKE_CHAT_TEMPLATE,
  metadata: {},
};
