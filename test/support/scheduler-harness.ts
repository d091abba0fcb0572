/** The real scheduler over the fake engine in one thread: the worker loops without rings, so that a test decides who runs when. */

import {
  BATCH_HEADER,
  BATCH_HEADER_WORDS,
  NOTICE_WORDS,
  OP_WORDS,
  SEGMENT_WORDS,
} from '../../src/shared/batch-wire.js';
import type { ContextSpec } from '../../src/shared/engine.js';
import { startWordsMax } from '../../src/shared/pipeline-buffers.js';
import { RESULT, RESULT_HEADER_WORDS, RESULT_SAMPLE_WORDS } from '../../src/shared/result-wire.js';
import { encodeSampling, GREEDY_SAMPLING, type SamplingParams } from '../../src/shared/sampling.js';
import { CARRY_NOTHING } from '../../src/shared/scheduler/carry-over.js';
import type { DraftSource } from '../../src/shared/scheduler/draft-policy.js';
import type { SchedulerLimits } from '../../src/shared/scheduler/limits.js';
import type { RequestSpec } from '../../src/shared/scheduler/request.js';
import { Scheduler } from '../../src/shared/scheduler/scheduler.js';
import {
  SAMPLE,
  SAMPLE_FLAG,
  SAMPLE_FLAGS_DONE,
  SAMPLE_WORDS,
  STEP_OUT,
  STEP_OUT_HEADER_WORDS,
  STEP_STATUS,
  stepOutputWords,
} from '../../src/shared/step-output.js';
import { FINISH_CODE, NOTICE_KIND } from '../../src/shared/token-wire.js';
import { FakeEngine } from '../../src/workers/fake-engine.js';
import type { FakeEngineOptions } from '../../src/workers/fake-options.js';
import { PrefixStore } from '../../src/workers/prefix-store.js';

export const GREEDY: SamplingParams = { ...GREEDY_SAMPLING, maxTokens: 16, ignoreEos: false };

export const LIMITS: SchedulerLimits = {
  layout: 'shared',
  sequences: 4,
  sequencesMax: 64,
  hasShapes: false,
  runningCap: 4,
  cells: 1024,
  cellsMax: 1024,
  cellBytes: 0,
  stateBytes: 0,
  contextTokens: 512,
  chunkTokens: 64,
  batchTokens: 128,
  canTrim: true,
  prefixCache: true,
  speculates: true,
  waitingMax: 1000,
  startWords: startWordsMax(512),
  tileTokens: 0,
  weightsBytes: 0,
  targetItlMicros: 1e9,
};

export interface Outcome {
  tokens: number[];
  cachedTokens: number;
  /** '' while it runs. */
  end: '' | 'stop' | 'length' | keyof typeof FINISH_CODE;
}

export class SchedulerHarness {
  readonly scheduler: Scheduler;
  readonly engine: FakeEngine;
  readonly prefixes: PrefixStore;
  readonly outcomes = new Map<number, Outcome>();
  /** Ops of every record so far: [kind, sequence, destination, from, to]. */
  readonly ops: number[][] = [];
  /** Saves and restores that did not come off. */
  failedCopies = 0;
  nowMs = 0;
  private readonly records: Int32Array[] = [];
  private readonly output: Int32Array;
  private readonly spec: ContextSpec;
  private epoch = 1;

  limits: SchedulerLimits;

  constructor(given: SchedulerLimits, fake: Partial<FakeEngineOptions> = {}, source: DraftSource | null = null) {
    // Unless a test says otherwise, the context does not grow.
    const limits = { ...given, cellsMax: given.cellsMax === LIMITS.cellsMax ? given.cells : given.cellsMax };
    this.limits = limits;
    this.engine = new FakeEngine({ canTrim: limits.canTrim, ...fake });
    this.prefixes = new PrefixStore(this.engine);
    this.engine.loadModel({ path: '', gpuLayers: 0, devices: [], useMmap: false, useMlock: false });
    this.spec = {
      layout: limits.layout,
      sequences: limits.sequences,
      cells: limits.cells,
      batchTokens: limits.batchTokens,
      ubatchTokens: limits.batchTokens,
      keyType: 'f16',
      valueType: 'f16',
      flashAttention: 'auto',
      threads: 1,
      promptThreads: 1,
    };
    this.engine.createContext(this.spec);
    this.output = new Int32Array(stepOutputWords(limits.sequences));
    this.scheduler = new Scheduler(limits, this.epoch, source);
  }

  submit(
    id: number,
    promptTokens: ArrayLike<number>,
    options: Partial<RequestSpec> & { sampling?: never; params?: Partial<SamplingParams> } = {},
  ): void {
    const params = { ...GREEDY, ...options.params };
    this.outcomes.set(id, { tokens: [], cachedTokens: -1, end: '' });
    this.scheduler.submit({
      id,
      promptTokens: Int32Array.from(promptTokens),
      maxTokens: params.maxTokens,
      penaltyLastTokens: params.penaltyLastTokens,
      priority: 0,
      cacheSalt: 0,
      usesPrefixCache: true,
      boundaries: [],
      allowsDrafts: true,
      arrivedAtMs: this.nowMs,
      maxWaitMs: 1e9,
      ...options,
      sampling: encodeSampling(params),
    });
  }

  /** The record that was planned last. */
  get lastRecord(): Int32Array {
    return this.records[this.records.length - 1];
  }

  get recordsInFlight(): number {
    return this.records.length;
  }

  /** Plans one record, if there is something to plan. */
  plan(): boolean {
    if (!this.scheduler.schedule(this.nowMs)) return false;
    const { plan } = this.scheduler;
    const record = new Int32Array(plan.recordWords);
    plan.encode(record, 0);
    this.scheduler.sent();
    this.records.push(record);
    for (let i = 0; i < record[BATCH_HEADER.opCount]; i++) {
      const at = BATCH_HEADER_WORDS + i * OP_WORDS;
      this.ops.push(Array.from(record.subarray(at, at + OP_WORDS)));
    }
    return true;
  }

  /** Runs the oldest record in flight and brings its result back. */
  run(): void {
    const record = this.records.shift();
    if (!record) return;
    this.takeNotices(record);
    const { output } = this;
    output.fill(0);
    const hasWork = record[BATCH_HEADER.segmentCount] > 0 || record[BATCH_HEADER.opCount] > 0;
    const isStale = record[BATCH_HEADER.epoch] !== this.epoch;
    if (hasWork && isStale) output[STEP_OUT.status] = STEP_STATUS.invalidRecord;
    const tierAt = record[BATCH_HEADER.totalWords];
    this.prefixes.beforeStep(record, tierAt, record.length, !isStale);
    if (hasWork && !isStale) this.engine.step(record, 0, output);
    const isDone = !isStale && output[STEP_OUT.status] === STEP_STATUS.ok;
    this.prefixes.afterStep(record, tierAt, record.length, isDone);
    if (output[STEP_OUT.status] !== STEP_STATUS.ok) output[STEP_OUT.sampleCount] = 0;
    this.takeTokens();
    this.scheduler.applyResult(this.result(record), 0);
    if (output[STEP_OUT.status] !== STEP_STATUS.ok && !isStale) {
      this.engine.createContext({ ...this.spec, cells: this.limits.cells });
      this.epoch++;
      this.scheduler.applyContext(this.limits, this.epoch);
    }
  }

  /** Replaces the context by one of `cells` cells, which takes nothing over. Nothing may be in flight. */
  moveContext(cells: number): void {
    this.scheduler.leaveContext(this.limits.sequences, cells, CARRY_NOTHING);
    this.limits = { ...this.limits, cells };
    this.engine.createContext({ ...this.spec, cells });
    this.epoch++;
    this.scheduler.enterContext(this.limits, this.epoch, []);
  }

  /** Plans and runs with up to `depth` records in flight until nothing is left. @throws Error when it does not end. */
  drain(depth = 2): void {
    for (let turn = 0; turn < 100_000; turn++) {
      while (this.records.length < depth && this.plan());
      if (this.records.length === 0) return;
      this.run();
    }
    throw new Error('the scheduler does not come to an end');
  }

  outcome(id: number): Outcome {
    const outcome = this.outcomes.get(id);
    if (!outcome) throw new Error(`no request ${id}`);
    return outcome;
  }

  private result(record: Int32Array): Int32Array {
    const { output } = this;
    const count = output[STEP_OUT.sampleCount];
    const { failed } = this.prefixes;
    const failedAt = RESULT_HEADER_WORDS + count * RESULT_SAMPLE_WORDS;
    const words = new Int32Array(failedAt + failed.length);
    words.set(failed, failedAt);
    this.failedCopies += failed.length;
    words[RESULT.failedCopies] = failed.length;
    words[RESULT.stepId] = record[BATCH_HEADER.stepId];
    words[RESULT.status] = output[STEP_OUT.status];
    words[RESULT.sampleCount] = count;
    words[RESULT.stepMicros] = 1000;
    for (let i = 0; i < count; i++) {
      const from = STEP_OUT_HEADER_WORDS + i * SAMPLE_WORDS;
      words.set(output.subarray(from, from + RESULT_SAMPLE_WORDS), RESULT_HEADER_WORDS + i * RESULT_SAMPLE_WORDS);
    }
    return words;
  }

  private takeTokens(): void {
    const { output } = this;
    for (let i = 0; i < output[STEP_OUT.sampleCount]; i++) {
      const at = STEP_OUT_HEADER_WORDS + i * SAMPLE_WORDS;
      const outcome = this.outcome(output[at + SAMPLE.request]);
      const flags = output[at + SAMPLE.flags];
      if (outcome.end !== '') continue;
      if ((flags & SAMPLE_FLAG.endOfGeneration) === 0) outcome.tokens.push(output[at + SAMPLE.token]);
      if (flags & SAMPLE_FLAGS_DONE) outcome.end = flags & SAMPLE_FLAG.endOfGeneration ? 'stop' : 'length';
    }
  }

  private takeNotices(record: Int32Array): void {
    const end = record[BATCH_HEADER.totalWords];
    let at = end - record[BATCH_HEADER.noticeCount] * NOTICE_WORDS;
    for (; at < end; at += NOTICE_WORDS) {
      const [id, kind, a] = record.subarray(at, at + 3);
      const outcome = this.outcome(id);
      if (kind === NOTICE_KIND.started) outcome.cachedTokens = a;
      if (kind === NOTICE_KIND.finished) {
        // A cancel may cross the last token on its way; main knows by then that the request is over.
        if (outcome.end !== '' && a === FINISH_CODE.cancelled) continue;
        if (outcome.end !== '') throw new Error(`request ${id} ended twice`);
        outcome.end = (Object.entries(FINISH_CODE).find(([, code]) => code === a)?.[0] ?? '') as Outcome['end'];
      }
    }
  }
}

/** Segments of a record, for tests that look inside: [sequence, position, count, isPlaceholder, sample, request]. */
export function segmentsOf(record: Int32Array): number[][] {
  const first = BATCH_HEADER_WORDS + record[BATCH_HEADER.opCount] * OP_WORDS + record[BATCH_HEADER.startWords];
  return Array.from({ length: record[BATCH_HEADER.segmentCount] }, (_, i) =>
    Array.from(record.subarray(first + i * SEGMENT_WORDS, first + (i + 1) * SEGMENT_WORDS)),
  );
}
