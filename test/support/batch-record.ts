import {
  BATCH_HEADER,
  BATCH_HEADER_WORDS,
  NOTICE,
  NOTICE_WORDS,
  OP,
  OP_KIND,
  OP_WORDS,
  PLACEHOLDER,
  SEGMENT,
  SEGMENT_WORDS,
  START,
  START_WORDS,
} from '../../src/shared/batch-wire.js';
import { encodeSampling, GREEDY_SAMPLING, type SamplingParams } from '../../src/shared/sampling.js';
import { SAMPLE, SAMPLE_WORDS, STEP_OUT, STEP_OUT_HEADER_WORDS } from '../../src/shared/step-output.js';

export const GREEDY: SamplingParams = { ...GREEDY_SAMPLING, maxTokens: 1 << 30, ignoreEos: false };

export interface RecordPlan {
  stepId: number;
  epoch?: number;
  ops?: Array<{ kind: keyof typeof OP_KIND; sequence: number; destination?: number; from?: number; to?: number }>;
  starts?: Array<{
    sequence: number;
    request: number;
    sampling?: Partial<SamplingParams>;
    history?: number[];
    sampledBefore?: number;
  }>;
  /** `tokens`: the segment's tokens; left out: a placeholder. */
  segments?: Array<{
    sequence: number;
    request: number;
    position: number;
    tokens?: ArrayLike<number>;
    sample?: boolean;
    /** Of `tokens`, those behind the first are drafts. */
    areDrafts?: boolean;
  }>;
  notices?: Array<[request: number, kind: number, a: number, b: number]>;
}

/** A batch record as the overlap worker writes it, for tests that talk to an engine directly. */
export function batchRecord(plan: RecordPlan): Int32Array {
  const ops = (plan.ops ?? []).map((op) => {
    const words = new Int32Array(OP_WORDS);
    words[OP.kind] = OP_KIND[op.kind];
    words[OP.sequence] = op.sequence;
    words[OP.destination] = op.destination ?? 0;
    words[OP.from] = op.from ?? 0;
    words[OP.to] = op.to ?? -1;
    return words;
  });
  const starts = (plan.starts ?? []).map((start) => {
    const words = new Int32Array(START_WORDS);
    words[START.sequence] = start.sequence;
    words[START.request] = start.request;
    words[START.historyCount] = start.history?.length ?? 0;
    words[START.sampledBefore] = start.sampledBefore ?? 0;
    return [...words, ...(start.history ?? []), ...encodeSampling({ ...GREEDY, ...start.sampling })];
  });
  const tokens: number[] = [];
  const segments = (plan.segments ?? []).map((segment) => {
    const words = new Int32Array(SEGMENT_WORDS);
    words[SEGMENT.sequence] = segment.sequence;
    words[SEGMENT.position] = segment.position;
    words[SEGMENT.count] = segment.tokens?.length ?? 1;
    words[SEGMENT.tokenIndex] = segment.tokens ? tokens.length : PLACEHOLDER;
    words[SEGMENT.sample] = segment.areDrafts ? words[SEGMENT.count] : (segment.sample ?? true) ? 1 : 0;
    words[SEGMENT.request] = segment.request;
    for (let i = 0; i < (segment.tokens?.length ?? 0); i++) tokens.push(segment.tokens![i]);
    return words;
  });
  const notices = (plan.notices ?? []).map(([request, kind, a, b]) => {
    const words = new Int32Array(NOTICE_WORDS);
    words[NOTICE.request] = request;
    words[NOTICE.kind] = kind;
    words[NOTICE.a] = a;
    words[NOTICE.b] = b;
    return words;
  });
  const header = new Int32Array(BATCH_HEADER_WORDS);
  const body = [...ops, ...starts, ...segments].flatMap((words) => [...words]);
  const all = [...body, ...tokens, ...notices.flatMap((words) => [...words])];
  header[BATCH_HEADER.stepId] = plan.stepId;
  header[BATCH_HEADER.epoch] = plan.epoch ?? 1;
  header[BATCH_HEADER.opCount] = ops.length;
  header[BATCH_HEADER.startCount] = starts.length;
  header[BATCH_HEADER.startWords] = starts.reduce((sum, words) => sum + words.length, 0);
  header[BATCH_HEADER.segmentCount] = segments.length;
  header[BATCH_HEADER.tokenCount] = tokens.length;
  header[BATCH_HEADER.noticeCount] = notices.length;
  header[BATCH_HEADER.totalWords] = BATCH_HEADER_WORDS + all.length;
  return Int32Array.from([...header, ...all]);
}

export interface StepSample {
  sequence: number;
  request: number;
  token: number;
  flags: number;
  topCount: number;
}

/** The samples that a step wrote. */
export function samplesOf(output: Int32Array): StepSample[] {
  return Array.from({ length: output[STEP_OUT.sampleCount] }, (_, i) => {
    const at = STEP_OUT_HEADER_WORDS + i * SAMPLE_WORDS;
    return {
      sequence: output[at + SAMPLE.sequence],
      request: output[at + SAMPLE.request],
      token: output[at + SAMPLE.token],
      flags: output[at + SAMPLE.flags],
      topCount: output[at + SAMPLE.topCount],
    };
  });
}
