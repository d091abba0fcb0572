import { Counter, Gauge, Registry } from 'prom-client';
import { ERRORS, type ErrorCode } from '../shared/errors.js';
import { gaugeMetrics } from './metrics-gauges.js';
import { BucketHistogram } from './metrics-histogram.js';
import type { Pipeline } from './pipeline-types.js';

/** From a decode step of a small model on a GPU to a first token behind a long queue, seconds. Chosen: about three buckets a decade. */
const LATENCY_BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600];
const TOKEN_BUCKETS = [1, 4, 16, 64, 256, 1024, 4096, 16_384, 65_536, 262_144];

export type RequestEnd = 'stop' | 'length' | 'cancelled' | 'error';

/**
 * What /metrics shows. The hot path only adds to plain numbers here; prom-client sees them when someone scrapes. Nothing in it comes
 * from a request's text: labels are error codes, finish reasons and memory owners.
 */
export class Metrics {
  readonly registry = new Registry();
  readonly timeToFirstToken = this.histogram('time_to_first_token_seconds', 'From arrival to the first token.');
  readonly interTokenLatency = this.histogram('inter_token_latency_seconds', 'Between two tokens of one choice.');
  readonly endToEnd = this.histogram('e2e_request_latency_seconds', 'From arrival to the end.');
  readonly queueTime = this.histogram('request_queue_time_seconds', 'From submission to the first prefill step.');
  readonly prefillTime = this.histogram(
    'request_prefill_time_seconds',
    'From the first prefill step to the first token.',
  );
  readonly decodeTime = this.histogram('request_decode_time_seconds', 'From the first token to the last.');
  readonly prepareTime = this.histogram('request_prepare_time_seconds', 'Template and tokenization.');
  readonly promptLength = this.histogram('request_prompt_tokens', 'Prompt tokens of a choice.', TOKEN_BUCKETS);
  readonly generationLength = this.histogram('request_generation_tokens', 'Output tokens of a choice.', TOKEN_BUCKETS);
  promptTokens = 0;
  cachedPromptTokens = 0;
  generationTokens = 0;
  slowClientDrops = 0;
  private readonly ends: Record<RequestEnd, number> = { stop: 0, length: 0, cancelled: 0, error: 0 };
  private readonly errors = new Map<ErrorCode, number>();

  /** `pipeline` gives the one in use now, or null while there is none. */
  constructor(pipeline: () => Pipeline | null) {
    gaugeMetrics(this.registry, pipeline);
    this.counter('prompt_tokens_total', 'Prompt tokens of started choices.', () => this.promptTokens);
    this.counter(
      'cached_prompt_tokens_total',
      'Prompt tokens taken from the prefix cache.',
      () => this.cachedPromptTokens,
    );
    this.counter('generation_tokens_total', 'Output tokens.', () => this.generationTokens);
    this.counter(
      'slow_client_drops_total',
      'Streams ended because their client did not read.',
      () => this.slowClientDrops,
    );
    this.labelled('requests_total', 'Choices that are over, by how they ended.', 'reason', () =>
      Object.entries(this.ends),
    );
    this.labelled('request_errors_total', 'Error replies, by code (docs/errors.md).', 'code', () =>
      this.errors.entries(),
    );
    new Gauge({
      name: 'plimsoll_active_requests',
      help: 'Choices submitted and not over, as the main thread sees them.',
      registers: [this.registry],
      collect() {
        this.set(pipeline()?.activeCount ?? 0);
      },
    });
  }

  countEnd(reason: RequestEnd): void {
    this.ends[reason]++;
  }

  /** @throws nothing; a code outside the table counts as internal. */
  countError(code: ErrorCode): void {
    const known = code in ERRORS ? code : 'internal';
    this.errors.set(known, (this.errors.get(known) ?? 0) + 1);
  }

  text(): Promise<string> {
    return this.registry.metrics();
  }

  get contentType(): string {
    return this.registry.contentType;
  }

  private histogram(name: string, help: string, buckets: number[] = LATENCY_BUCKETS): BucketHistogram {
    const histogram = new BucketHistogram({ name: `plimsoll_${name}`, help, buckets, registers: [] });
    this.registry.registerMetric(histogram);
    return histogram;
  }

  private counter(name: string, help: string, read: () => number): void {
    new Counter({
      name: `plimsoll_${name}`,
      help,
      registers: [this.registry],
      collect() {
        this.reset();
        this.inc(read());
      },
    });
  }

  private labelled(name: string, help: string, label: string, read: () => Iterable<[string, number]>): void {
    new Counter({
      name: `plimsoll_${name}`,
      help,
      labelNames: [label],
      registers: [this.registry],
      collect() {
        this.reset();
        for (const [value, count] of read()) this.inc({ [label]: value }, count);
      },
    });
  }
}
