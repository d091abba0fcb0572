import { BATCH_HEADER_WORDS, NOTICE_WORDS, OP_WORDS, SEGMENT_WORDS, START_WORDS } from './batch-wire.js';
import { CONTROL_WORDS } from './control-layout.js';
import { DOORBELL_BYTES, Doorbell } from './doorbell.js';
import { DEVICE_GAUGES, gaugesBytes, SCHEDULER_GAUGES } from './gauges-layout.js';
import { RESULT_HEADER_WORDS, RESULT_SAMPLE_WORDS } from './result-wire.js';
import { ringBytes, ringCapacityFor } from './ring.js';
import { GRAMMAR_MAX_BYTES, LOGIT_BIAS_MAX, SAMPLING_FIXED_WORDS, TOP_LOGPROBS_MAX } from './sampling-wire.js';
import { SUBMIT_BOUNDARIES_MAX, SUBMIT_HEADER_WORDS } from './submit-wire.js';
import { TIER_COPIES_MAX, TIER_OP_WORDS, TIER_OPS_MAX } from './tier-wire.js';
import { TOKEN_SAMPLE_WORDS } from './token-wire.js';

/** Memory that exists before the plan: the threads' control words, their bells, the gauges. */
export interface CoreBuffers {
  control: SharedArrayBuffer;
  bells: SharedArrayBuffer;
  deviceGauges: SharedArrayBuffer;
  schedulerGauges: SharedArrayBuffer;
}

/** The rings, sized by the plan. Arrows of design.md 2: main → overlap → forward → both. */
export interface RingBuffers {
  submit: SharedArrayBuffer;
  batch: SharedArrayBuffer;
  result: SharedArrayBuffer;
  token: SharedArrayBuffer;
}

const BELL = { main: 0, overlap: 1, forward: 2, disk: 3 } as const;

export function bellOf(buffers: CoreBuffers, thread: keyof typeof BELL): Doorbell {
  return new Doorbell(buffers.bells, BELL[thread] * DOORBELL_BYTES);
}

export function createCoreBuffers(): CoreBuffers {
  return {
    control: new SharedArrayBuffer(CONTROL_WORDS * 4),
    bells: new SharedArrayBuffer(DOORBELL_BYTES * Object.keys(BELL).length),
    deviceGauges: new SharedArrayBuffer(gaugesBytes(DEVICE_GAUGES)),
    schedulerGauges: new SharedArrayBuffer(gaugesBytes(SCHEDULER_GAUGES)),
  };
}

/** Words of the largest sampling block. */
const SAMPLING_MAX_WORDS = SAMPLING_FIXED_WORDS + 2 * LOGIT_BIAS_MAX + GRAMMAR_MAX_BYTES / 4;
/** Room for a main thread that is busy with something else for a while. Chosen: two seconds of 20,000 tokens a second. */
const TOKEN_RING_MIN_BYTES = 1 << 20;
/** Ops a sequence may need in one record: stopped and removed for two results, evicted, copied to, trimmed, preempted. */
const OPS_PER_SEQUENCE = 8;
/** Notices in one record beside those of running requests. The scheduler holds the rest back. Chosen. */
export const RECORD_NOTICES_MAX = 1024;

export interface RingSizes {
  contextTokens: number;
  sequences: number;
  batchTokens: number;
}

/** Words of the largest batch record that may be planned: all sequences at work, and one start of the largest kind. */
export function batchRecordWordsMax({ contextTokens, sequences, batchTokens }: RingSizes): number {
  const perSequence = OPS_PER_SEQUENCE * OP_WORDS + SEGMENT_WORDS + 3 * NOTICE_WORDS;
  return (
    BATCH_HEADER_WORDS +
    sequences * perSequence +
    RECORD_NOTICES_MAX * NOTICE_WORDS +
    batchTokens +
    startWordsMax(contextTokens) +
    TIER_OPS_MAX * TIER_OP_WORDS
  );
}

/** Words of the largest start: the whole context as history, and the largest sampling block. */
export function startWordsMax(contextTokens: number): number {
  return START_WORDS + contextTokens + SAMPLING_MAX_WORDS;
}

export function createRingBuffers(sizes: RingSizes): RingBuffers {
  const submitWords = SUBMIT_HEADER_WORDS + SAMPLING_MAX_WORDS + sizes.contextTokens + SUBMIT_BOUNDARIES_MAX;
  const resultWords = RESULT_HEADER_WORDS + sizes.sequences * RESULT_SAMPLE_WORDS + TIER_COPIES_MAX;
  const tokenWords = Math.max(
    1 + sizes.sequences * (TOKEN_SAMPLE_WORDS + 2 * TOP_LOGPROBS_MAX),
    1 + (RECORD_NOTICES_MAX + 3 * sizes.sequences) * NOTICE_WORDS,
  );
  const ring = (payloadWords: number, minBytes = 0) =>
    new SharedArrayBuffer(ringBytes(Math.max(ringCapacityFor(payloadWords * 4), minBytes)));
  return {
    submit: ring(submitWords),
    batch: ring(batchRecordWordsMax(sizes)),
    result: ring(resultWords),
    token: ring(tokenWords, TOKEN_RING_MIN_BYTES),
  };
}
