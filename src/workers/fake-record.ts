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
} from '../shared/batch-wire.js';
import { f32FromBits } from '../shared/sampling.js';
import { SAMPLING, SAMPLING_FIXED_WORDS, TOP_LOGPROBS_MAX } from '../shared/sampling-wire.js';
import { NOTICE_KIND } from '../shared/token-wire.js';
import { invalid } from './fake-checks.js';

/** What a record may not exceed. */
export interface RecordLimits {
  sequences: number;
  batchTokens: number;
  vocabularySize: number;
}

/** Where the parts of a batch record lie: absolute word indices. Reused from step to step. */
export class RecordParts {
  stepId = 0;
  epoch = 0;
  opsAt = 0;
  opCount = 0;
  startsAt = 0;
  startCount = 0;
  segmentsAt = 0;
  segmentCount = 0;
  tokensAt = 0;
  tokenCount = 0;

  /** Finds the parts and checks all that can be checked without the context's state. @throws EngineError invalid_record. */
  read(words: Int32Array, at: number, limits: RecordLimits): void {
    this.stepId = words[at + BATCH_HEADER.stepId];
    this.epoch = words[at + BATCH_HEADER.epoch];
    this.opCount = words[at + BATCH_HEADER.opCount];
    this.startCount = words[at + BATCH_HEADER.startCount];
    this.segmentCount = words[at + BATCH_HEADER.segmentCount];
    this.tokenCount = words[at + BATCH_HEADER.tokenCount];
    const startWords = words[at + BATCH_HEADER.startWords];
    const noticeCount = words[at + BATCH_HEADER.noticeCount];
    const threads = words[at + BATCH_HEADER.threads];
    // The OR of the counts is negative exactly when one of them is.
    const anyCount = this.opCount | this.startCount | startWords | this.segmentCount | this.tokenCount;
    check((anyCount | noticeCount | threads) >= 0, 'a negative count in the header');

    this.opsAt = at + BATCH_HEADER_WORDS;
    this.startsAt = this.opsAt + this.opCount * OP_WORDS;
    this.segmentsAt = this.startsAt + startWords;
    this.tokensAt = this.segmentsAt + this.segmentCount * SEGMENT_WORDS;
    const noticesAt = this.tokensAt + this.tokenCount;
    const end = noticesAt + noticeCount * NOTICE_WORDS;
    const totalWords = words[at + BATCH_HEADER.totalWords];
    if (end - at !== totalWords) throw invalid(`the parts take ${end - at} words, totalWords says ${totalWords}`);
    if (end > words.length) throw invalid(`the record ends at word ${end} of ${words.length}`);

    this.checkOps(words, limits);
    this.checkStarts(words, limits);
    this.checkSegments(words, limits);
    for (let i = 0; i < noticeCount; i++) {
      const notice = noticesAt + i * NOTICE_WORDS;
      check(words[notice + NOTICE.request] > 0, 'a notice without a request');
      check(isOneOf(NOTICE_KIND, words[notice + NOTICE.kind]), 'a notice of no known kind');
    }
  }

  private checkOps(words: Int32Array, limits: RecordLimits): void {
    for (let i = 0; i < this.opCount; i++) {
      const op = this.opsAt + i * OP_WORDS;
      const kind = words[op + OP.kind];
      check(isOneOf(OP_KIND, kind), 'an operation of no known kind');
      check(isSequence(words[op + OP.sequence], limits), 'an operation on no sequence');
      if (kind === OP_KIND.stop) continue;
      const from = words[op + OP.from];
      const to = words[op + OP.to];
      check(from >= 0 && (to === -1 || to >= from), 'an operation on no range');
      if (kind === OP_KIND.copy) check(isSequence(words[op + OP.destination], limits), 'a copy to no sequence');
    }
  }

  private checkStarts(words: Int32Array, limits: RecordLimits): void {
    let start = this.startsAt;
    for (let i = 0; i < this.startCount; i++) {
      check(start + START_WORDS <= this.segmentsAt, 'a start past the starts');
      check(isSequence(words[start + START.sequence], limits), 'a start on no sequence');
      check(words[start + START.request] > 0, 'a start without a request');
      check(words[start + START.sampledBefore] >= 0, 'a negative sampledBefore');
      const historyCount = words[start + START.historyCount];
      check(historyCount >= 0, 'a negative historyCount');
      const samplingAt = start + START_WORDS + historyCount;
      check(samplingAt + SAMPLING_FIXED_WORDS <= this.segmentsAt, 'a history past the starts');
      for (let j = start + START_WORDS; j < samplingAt; j++) check(isToken(words[j], limits), 'history with no token');
      checkSampling(words, samplingAt, historyCount, limits);
      start = samplingAt + words[samplingAt + SAMPLING.totalWords];
    }
    if (start !== this.segmentsAt) {
      throw invalid(
        `the starts end at word ${start - this.startsAt}, startWords says ${this.segmentsAt - this.startsAt}`,
      );
    }
  }

  private checkSegments(words: Int32Array, limits: RecordLimits): void {
    let nextToken = 0;
    let batchTokens = 0;
    let samples = 0;
    for (let i = 0; i < this.segmentCount; i++) {
      const segment = this.segmentsAt + i * SEGMENT_WORDS;
      const count = words[segment + SEGMENT.count];
      const tokenIndex = words[segment + SEGMENT.tokenIndex];
      const sample = words[segment + SEGMENT.sample];
      check(isSequence(words[segment + SEGMENT.sequence], limits), 'a segment on no sequence');
      check(words[segment + SEGMENT.request] > 0, 'a segment without a request');
      check(words[segment + SEGMENT.position] >= 0, 'a segment at a negative position');
      check(count > 0, 'an empty segment');
      check(sample === 0 || sample === 1 || sample === count, 'samples of neither none, one nor all of its tokens');
      if (tokenIndex === PLACEHOLDER) {
        check(count === 1, 'a placeholder for more than one token');
      } else {
        // Every token belongs to exactly one segment, in order: a gap or an overlap is a mistake of the producer.
        if (tokenIndex !== nextToken)
          throw invalid(`segment ${i} takes tokens from ${tokenIndex}, expected ${nextToken}`);
        nextToken += count;
      }
      batchTokens += count;
      samples += sample;
    }
    if (nextToken !== this.tokenCount) throw invalid(`the segments take ${nextToken} of ${this.tokenCount} tokens`);
    if (batchTokens > limits.batchTokens) throw invalid(`${batchTokens} tokens in a batch of ${limits.batchTokens}`);
    if (samples > limits.sequences) throw invalid(`${samples} samples for ${limits.sequences} sequences`);
    for (let i = 0; i < this.tokenCount; i++) {
      const token = words[this.tokensAt + i];
      if (!isToken(token, limits)) throw invalid(`token ${token} is not in the vocabulary`);
    }
  }
}

function checkSampling(words: Int32Array, at: number, historyCount: number, limits: RecordLimits): void {
  const biasCount = words[at + SAMPLING.biasCount];
  const grammarBytes = words[at + SAMPLING.grammarBytes];
  check(biasCount >= 0 && grammarBytes >= 0, 'a sampling block with negative counts');
  const expected = SAMPLING_FIXED_WORDS + biasCount * 2 + ((grammarBytes + 3) >> 2);
  const totalWords = words[at + SAMPLING.totalWords];
  if (totalWords !== expected) throw invalid(`a sampling block of ${expected} words says ${totalWords}`);
  const temperature = f32FromBits(words[at + SAMPLING.temperature]);
  check(Number.isFinite(temperature) && temperature >= 0, 'a temperature that is negative or no number');
  check(words[at + SAMPLING.maxTokens] > 0, 'maxTokens below 1');
  const logprobs = words[at + SAMPLING.logprobs];
  check(logprobs >= -1 && logprobs <= TOP_LOGPROBS_MAX, 'logprobs out of range');
  const penaltyLastTokens = words[at + SAMPLING.penaltyLastTokens];
  check(penaltyLastTokens >= -1, 'penaltyLastTokens below -1');
  check(penaltyLastTokens < 0 || historyCount <= penaltyLastTokens, 'more history than the penalties look at');
  for (let i = 0; i < biasCount; i++) {
    check(isToken(words[at + SAMPLING_FIXED_WORDS + i * 2], limits), 'a bias on no token');
  }
}

function isSequence(sequence: number, limits: RecordLimits): boolean {
  return sequence >= 0 && sequence < limits.sequences;
}

function isToken(token: number, limits: RecordLimits): boolean {
  return token >= 0 && token < limits.vocabularySize;
}

function isOneOf(kinds: Readonly<Record<string, number>>, value: number): boolean {
  for (const name in kinds) if (kinds[name] === value) return true;
  return false;
}

function check(condition: boolean, what: string): void {
  if (!condition) throw invalid(what);
}
