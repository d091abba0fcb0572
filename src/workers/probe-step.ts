import {
  BATCH_HEADER,
  BATCH_HEADER_WORDS,
  OP_KIND,
  OP_WORDS,
  SEGMENT_WORDS,
  START_WORDS,
} from '../shared/batch-wire.js';
import { type ContextSpec, type Engine, EngineError } from '../shared/engine.js';
import { encodeSampling, GREEDY_SAMPLING, type SamplingParams } from '../shared/sampling.js';
import { STEP_OUT, STEP_STATUS, stepOutputWords } from '../shared/step-output.js';

const GREEDY: SamplingParams = { ...GREEDY_SAMPLING, maxTokens: 1, ignoreEos: true };

/**
 * Runs one step in which sequence i gets `counts[i]` tokens, and empties the context again. The context is empty before. Returns what
 * the step said when it failed; null: it ran.
 */
export function runProbeStep(
  engine: Engine,
  spec: ContextSpec,
  epoch: number,
  counts: readonly number[],
  /** The step's; the clearing record has the next. Ids rise from record to record. */
  stepId: number,
  /** Engine threads; 0: as the context was made. */
  threads: number,
): string | null {
  return (
    run(engine, spec, stepRecord(counts, epoch, stepId, threads)) ??
    run(engine, spec, clearRecord(spec, epoch, stepId + 1))
  );
}

function run(engine: Engine, spec: ContextSpec, record: Int32Array): string | null {
  const output = new Int32Array(stepOutputWords(spec.sequences));
  try {
    engine.step(record, 0, output);
  } catch (error) {
    if (!(error instanceof EngineError)) throw error;
    return error.message;
  }
  const status = output[STEP_OUT.status];
  return status === STEP_STATUS.ok ? null : `step status ${status}, engine code ${output[STEP_OUT.engineCode]}`;
}

/** The first `counts.length` sequences get so many tokens each; each is sampled once. */
function stepRecord(counts: readonly number[], epoch: number, stepId: number, threads: number): Int32Array {
  const sampling = encodeSampling(GREEDY);
  const starts: number[] = [];
  const segments: number[] = [];
  let tokens = 0;
  counts.forEach((count, sequence) => {
    const request = sequence + 1;
    starts.push(sequence, request, 0, 0, ...sampling);
    segments.push(sequence, 0, count, tokens, 1, request);
    tokens += count;
  });
  const record = new Int32Array(BATCH_HEADER_WORDS + starts.length + segments.length + tokens).fill(1);
  writeHeader(record, epoch, stepId);
  record[BATCH_HEADER.threads] = threads;
  record[BATCH_HEADER.startCount] = starts.length / (START_WORDS + sampling.length);
  record[BATCH_HEADER.startWords] = starts.length;
  record[BATCH_HEADER.segmentCount] = segments.length / SEGMENT_WORDS;
  record[BATCH_HEADER.tokenCount] = tokens;
  record.set(starts, BATCH_HEADER_WORDS);
  record.set(segments, BATCH_HEADER_WORDS + starts.length);
  return record;
}

/** Empties every sequence. */
function clearRecord(spec: ContextSpec, epoch: number, stepId: number): Int32Array {
  const ops: number[] = [];
  for (let sequence = 0; sequence < spec.sequences; sequence++)
    ops.push(OP_KIND.stop, sequence, -1, 0, -1, OP_KIND.remove, sequence, -1, 0, -1);
  const record = new Int32Array(BATCH_HEADER_WORDS + ops.length);
  writeHeader(record, epoch, stepId);
  record[BATCH_HEADER.opCount] = ops.length / OP_WORDS;
  record.set(ops, BATCH_HEADER_WORDS);
  return record;
}

function writeHeader(record: Int32Array, epoch: number, stepId: number): void {
  record.fill(0, 0, BATCH_HEADER_WORDS);
  record[BATCH_HEADER.stepId] = stepId;
  record[BATCH_HEADER.epoch] = epoch;
  record[BATCH_HEADER.totalWords] = record.length;
}
