/**
 * What planning one step takes beside a long queue: the real scheduler, its records encoded, over results that say one token for each
 * sample. Prints one result. Arguments: running requests, waiting requests, steps.
 */
import { BATCH_HEADER, BATCH_HEADER_WORDS, OP_WORDS, SEGMENT, SEGMENT_WORDS } from '../../src/shared/batch-wire.js';
import { startWordsMax } from '../../src/shared/pipeline-buffers.js';
import { RESULT, RESULT_HEADER_WORDS, RESULT_SAMPLE, RESULT_SAMPLE_WORDS } from '../../src/shared/result-wire.js';
import { encodeSampling, GREEDY_SAMPLING } from '../../src/shared/sampling.js';
import type { SchedulerLimits } from '../../src/shared/scheduler/limits.js';
import { Scheduler } from '../../src/shared/scheduler/scheduler.js';
import { SAMPLE_FLAG, STEP_STATUS } from '../../src/shared/step-output.js';
import { percentile } from '../measure/statistics.js';
import { report } from '../measure/trial.js';

const CONTEXT_TOKENS = 1024;
const PROMPT_TOKENS = 200;
/** Conversations that begin alike, in groups: the prefix cache has something to find. */
const SHARED_TOKENS = 120;
const GROUPS = 16;
const LEAST_OUTPUT = 32;
const OUTPUT_SPREAD = 64;
/** Compilers need some thousand steps to settle. */
const WARM_UP_STEPS = 3_000;
/** As in the overlap worker: one record runs, one waits for it. */
const IN_FLIGHT = 2;
const STEP_MICROS = 10_000;

export interface ScheduleResult {
  p50Micros: number;
  p99Micros: number;
  mostMicros: number;
  /** On average over the measured steps. */
  decodes: number;
  waiting: number;
}

const [running, waiting, steps] = process.argv.slice(2).map(Number);
const limits: SchedulerLimits = {
  layout: 'private',
  sequences: running,
  sequencesMax: running,
  hasShapes: false,
  runningCap: running,
  cells: CONTEXT_TOKENS,
  cellsMax: CONTEXT_TOKENS,
  cellBytes: 100_000,
  stateBytes: 0,
  contextTokens: CONTEXT_TOKENS,
  chunkTokens: 512,
  batchTokens: 512 + running,
  canTrim: true,
  prefixCache: true,
  speculates: true,
  waitingMax: 2 * (running + waiting),
  startWords: startWordsMax(CONTEXT_TOKENS),
  tileTokens: 0,
  weightsBytes: 0,
  targetItlMicros: 300_000,
};
const scheduler = new Scheduler(limits, 1);
/** Tokens that each request may still get. */
const left = new Map<number, number>();
const records: Int32Array[] = [];
let submitted = 0;

function submit(): void {
  const id = ++submitted;
  const group = id % GROUPS;
  const maxTokens = LEAST_OUTPUT + ((id * 7919) % OUTPUT_SPREAD);
  const promptTokens = Int32Array.from({ length: PROMPT_TOKENS }, (_, i) =>
    i < SHARED_TOKENS ? group * 1000 + i : (id * 31 + i * 17) % 30_000,
  );
  left.set(id, maxTokens);
  scheduler.submit({
    id,
    promptTokens,
    sampling: encodeSampling({ ...GREEDY_SAMPLING, maxTokens, ignoreEos: true }),
    maxTokens,
    penaltyLastTokens: 0,
    priority: 0,
    cacheSalt: 0,
    usesPrefixCache: true,
    boundaries: [],
    allowsDrafts: true,
    arrivedAtMs: 0,
    maxWaitMs: Number.MAX_SAFE_INTEGER,
  });
}

/** Plans and encodes one record; returns how long that took, microseconds, or null when there was nothing to plan. */
function plan(nowMs: number): number | null {
  const startMs = performance.now();
  if (!scheduler.schedule(nowMs)) return null;
  const record = new Int32Array(scheduler.plan.recordWords);
  scheduler.plan.encode(record, 0);
  scheduler.sent();
  records.push(record);
  return (performance.now() - startMs) * 1000;
}

/** The oldest record's result: a token for each sample, the last one of its request where it is. */
function run(): void {
  const record = records.shift();
  if (!record) throw new Error('nothing is in flight');
  const first = BATCH_HEADER_WORDS + record[BATCH_HEADER.opCount] * OP_WORDS + record[BATCH_HEADER.startWords];
  const samples: number[] = [];
  for (let i = 0; i < record[BATCH_HEADER.segmentCount]; i++) {
    const at = first + i * SEGMENT_WORDS;
    const id = record[at + SEGMENT.request];
    const tokens = left.get(id);
    if (record[at + SEGMENT.sample] === 0 || tokens === undefined) continue;
    const isLast = tokens === 1;
    const sample = new Array<number>(RESULT_SAMPLE_WORDS).fill(0);
    sample[RESULT_SAMPLE.sequence] = record[at + SEGMENT.sequence];
    sample[RESULT_SAMPLE.request] = id;
    sample[RESULT_SAMPLE.token] = (id * 13 + tokens * 101) % 30_000;
    sample[RESULT_SAMPLE.flags] = isLast ? SAMPLE_FLAG.maxTokens : 0;
    samples.push(...sample);
    if (isLast) left.delete(id);
    else left.set(id, tokens - 1);
  }
  const words = new Int32Array(RESULT_HEADER_WORDS + samples.length);
  words[RESULT.stepId] = record[BATCH_HEADER.stepId];
  words[RESULT.status] = STEP_STATUS.ok;
  words[RESULT.sampleCount] = samples.length / RESULT_SAMPLE_WORDS;
  words[RESULT.stepMicros] = STEP_MICROS;
  words.set(samples, RESULT_HEADER_WORDS);
  scheduler.applyResult(words, 0);
}

const micros: number[] = [];
let decodes = 0;
let queued = 0;
for (let step = 0; step < WARM_UP_STEPS + steps; step++) {
  while (left.size < running + waiting) submit();
  while (records.length < IN_FLIGHT) {
    const took = plan(step * (STEP_MICROS / 1000));
    if (took === null) break;
    if (step < WARM_UP_STEPS) continue;
    micros.push(took);
    decodes += scheduler.plan.decodes;
    queued += scheduler.waitingCount;
  }
  run();
}
report({
  p50Micros: percentile(micros, 0.5),
  p99Micros: percentile(micros, 0.99),
  mostMicros: Math.max(...micros),
  decodes: decodes / micros.length,
  waiting: queued / micros.length,
} satisfies ScheduleResult);
