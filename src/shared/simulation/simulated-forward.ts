import { BATCH_HEADER } from '../batch-wire.js';
import { RUNG_NONE } from '../context-wire.js';
import type { ContextRung } from '../memory/context-ladder.js';
import type { CostModel } from '../memory/cost-model.js';
import { RESULT, RESULT_HEADER_WORDS, RESULT_SAMPLE, RESULT_SAMPLE_WORDS } from '../result-wire.js';
import type { SequenceMove } from '../scheduler/carry-over.js';
import { STEP_STATUS } from '../step-output.js';
import type { SimulatedDevice } from './device.js';
import { SimulatedContext, type StepWork } from './simulated-context.js';
import type { StepSpeed } from './speed.js';

export interface FinishedStep {
  /** In the words of result-wire.ts. */
  result: Int32Array;
  work: StepWork;
  durationMs: number;
}

export interface FinishedMove {
  rung: number;
  carried: number[];
  durationMs: number;
}

/** A record without work still passes through two rings. Chosen. */
const EMPTY_STEP_MICROS = 20;
const NO_WORK: StepWork = { samples: [], decodes: 0, promptTokens: 0, attentionPairs: 0, evictions: 0 };

/** The forward worker's place: owns the context, takes and gives back the device's memory in the order in which the real one does. */
export class SimulatedForward {
  private context: SimulatedContext | null = null;
  private hasStepped = false;
  /** Output tokens after which a request ends by itself. */
  answerTokensOf: (request: number) => number = () => Number.POSITIVE_INFINITY;

  constructor(
    private readonly device: SimulatedDevice,
    private readonly ladder: readonly ContextRung[],
    private readonly costs: CostModel,
    private readonly speed: StepSpeed,
    private readonly cellBytes: number,
  ) {}

  create(rung: number, nowMs: number): void {
    const { spec } = this.ladder[rung];
    const cost = this.costs.cost(spec);
    this.device.set('kv', cost.kvBytes, nowMs);
    this.device.set('compute', cost.computeBytes, nowMs);
    this.device.set('hostBuffers', cost.hostBytes, nowMs);
    this.context = new SimulatedContext(spec, (request) => this.answerTokensOf(request));
  }

  /** Runs one record that begins at `nowMs`. */
  step(record: Int32Array, epoch: number, nowMs: number): FinishedStep {
    const work = this.workOf(record, epoch);
    if (!this.hasStepped && work.samples.length > 0) {
      this.hasStepped = true;
      this.device.set('runtimeExtra', this.device.machine.runtimeExtraBytes, nowMs);
    }
    const micros = Math.round(this.stepMicros(work));
    const result = new Int32Array(RESULT_HEADER_WORDS + work.samples.length * RESULT_SAMPLE_WORDS);
    result[RESULT.stepId] = record[BATCH_HEADER.stepId];
    result[RESULT.epoch] = epoch;
    result[RESULT.status] = STEP_STATUS.ok;
    result[RESULT.sampleCount] = work.samples.length;
    result[RESULT.decodedTokens] = work.decodes + work.promptTokens;
    result[RESULT.stepMicros] = micros;
    result[RESULT.kvUsedTokens] = this.context?.usedCells ?? 0;
    work.samples.forEach((sample, i) => {
      const at = RESULT_HEADER_WORDS + i * RESULT_SAMPLE_WORDS;
      result[at + RESULT_SAMPLE.sequence] = sample.sequence;
      result[at + RESULT_SAMPLE.request] = sample.request;
      result[at + RESULT_SAMPLE.token] = sample.token;
      result[at + RESULT_SAMPLE.flags] = sample.flags;
    });
    return { result, work, durationMs: micros / 1000 };
  }

  /** A record of notices alone needs no context. */
  private workOf(record: Int32Array, epoch: number): StepWork {
    if (this.context !== null) {
      if (record[BATCH_HEADER.epoch] !== epoch) throw new Error('a record of another epoch');
      return this.context.step(record);
    }
    if (record[BATCH_HEADER.segmentCount] > 0 || record[BATCH_HEADER.opCount] > 0)
      throw new Error('a record came while no context stands');
    return NO_WORK;
  }

  /** Saves, frees, makes, restores: copies lie beside the old context, then beside the new one. */
  move(rung: number, keep: readonly SequenceMove[], nowMs: number): FinishedMove {
    const { device } = this;
    const before = this.context;
    const lengths = keep.map(({ from }) => before?.length(from) ?? 0);
    const copiedBytes = lengths.reduce((sum, length) => sum + length, 0) * this.cellBytes;
    device.set('states', copiedBytes, nowMs);
    this.free(nowMs);
    if (rung === RUNG_NONE) {
      device.set('states', 0, nowMs);
      return { rung, carried: [], durationMs: this.speed.createMicros / 1000 };
    }
    this.create(rung, nowMs);
    const carried = keep.filter(({ to }, i) => this.context?.restore(to, lengths[i])).map(({ from }) => from);
    device.set('states', 0, nowMs);
    const micros = this.speed.createMicros + copiedBytes * this.speed.moveMicrosPerByte;
    return { rung, carried, durationMs: micros / 1000 };
  }

  private free(nowMs: number): void {
    this.device.set('kv', 0, nowMs);
    this.device.set('compute', 0, nowMs);
    this.device.set('hostBuffers', 0, nowMs);
    this.context = null;
  }

  private stepMicros({ decodes, promptTokens, attentionPairs }: StepWork): number {
    if (decodes + promptTokens === 0) return EMPTY_STEP_MICROS;
    const { speed } = this;
    return (
      speed.baseMicros +
      decodes * speed.decodeMicros +
      promptTokens * speed.promptTokenMicros +
      attentionPairs * speed.attentionMicros
    );
  }
}
