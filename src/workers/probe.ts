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

/** A first, small chunk tells how long the whole one would take. Chosen: quick even for a large model on a slow machine. */
const FIRST_CHUNK_TOKENS = 64;
/** A probe may take about so long; beyond it the rest is extrapolated. Chosen: a start should not feel it. */
const PROBE_MAX_MS = 400;
/** Step ids of the probe's records: before every record of the scheduler, which begins at 0. */
const FIRST_STEP_ID = -16;

export interface ProbeRun {
  /** Prompt tokens of the largest step that ran. */
  chunkTokens: number;
  /** The planned chunk was not run: it would have taken too long here. */
  isExtrapolated: boolean;
  stepMs: number;
  /** What the step said when it failed; null: it ran. */
  failure: string | null;
}

const GREEDY: SamplingParams = { ...GREEDY_SAMPLING, maxTokens: 1, ignoreEos: true };

/**
 * Runs the largest planned step for real on the context that stands: a prompt chunk of one sequence and one token of each other, all
 * sampled. What the backend takes at run time (kernels, pools, library workspaces) is in the readings afterwards. Leaves the context empty.
 */
export function runProbe(
  engine: Engine,
  spec: ContextSpec,
  epoch: number,
  chunkTokens: number,
  /** Engine threads; 0: as the context was made. */
  threads: number,
): ProbeRun {
  const others = spec.sequences - 1;
  const largest = Math.min(chunkTokens, spec.cells - others - 1, spec.batchTokens - others);
  const first = Math.min(FIRST_CHUNK_TOKENS, largest);
  const run: ProbeRun = { chunkTokens: 0, isExtrapolated: false, stepMs: 0, failure: null };
  let stepId = FIRST_STEP_ID;
  for (const chunk of first === largest ? [first] : [first, largest]) {
    const expectedMs = (run.stepMs * chunk) / Math.max(1, run.chunkTokens);
    if (run.chunkTokens > 0 && expectedMs > PROBE_MAX_MS) {
      run.isExtrapolated = true;
      break;
    }
    const startMs = performance.now();
    run.failure =
      step(engine, spec, probeRecord(spec, epoch, stepId++, chunk, threads)) ??
      step(engine, spec, clearRecord(spec, epoch, stepId++));
    run.stepMs = performance.now() - startMs;
    if (run.failure !== null) break;
    run.chunkTokens = chunk;
  }
  return run;
}

function step(engine: Engine, spec: ContextSpec, record: Int32Array): string | null {
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

/** Sequence 0 gets `chunk` tokens, every other one token; each is sampled once. */
function probeRecord(spec: ContextSpec, epoch: number, stepId: number, chunk: number, threads: number): Int32Array {
  const sampling = encodeSampling(GREEDY);
  const starts: number[] = [];
  const segments: number[] = [];
  let tokens = 0;
  for (let sequence = 0; sequence < spec.sequences; sequence++) {
    const count = sequence === 0 ? chunk : 1;
    const request = sequence + 1;
    starts.push(sequence, request, 0, 0, ...sampling);
    segments.push(sequence, 0, count, tokens, 1, request);
    tokens += count;
  }
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
