import {
  BATCH_HEADER,
  BATCH_HEADER_WORDS,
  NOTICE_WORDS,
  OP,
  OP_KIND,
  OP_WORDS,
  PLACEHOLDER,
  SEGMENT,
  SEGMENT_WORDS,
  START_WORDS,
} from '../batch-wire.js';
import { RECORD_NOTICES_MAX } from '../pipeline-buffers.js';
import { SAMPLING } from '../sampling-wire.js';
import type { Request } from './request.js';
import { TierOps } from './tier-ops.js';

/** Words that grow once and are reused for every step: planning allocates nothing a token. */
class WordList {
  words: Int32Array;
  length = 0;

  constructor(capacity: number) {
    this.words = new Int32Array(capacity);
  }

  clear(): void {
    this.length = 0;
  }

  /** Makes room for `count` more words and returns the index of the first. */
  grow(count: number): number {
    const at = this.length;
    if (at + count > this.words.length) {
      const grown = new Int32Array(Math.max(at + count, this.words.length * 2));
      grown.set(this.words);
      this.words = grown;
    }
    this.length = at + count;
    return at;
  }
}

/** A prefix on its way from the host tier. */
export interface Restore {
  request: Request;
  slot: number;
  /** Tokens of the slot; the prompt goes on from `request.computedCount`. */
  count: number;
}

/** One step being planned: what goes into one batch record (batch-wire.ts). Reused from step to step. */
export class BatchPlan {
  stepId = 0;
  epoch = 0;
  threads = 0;
  startCount = 0;
  /** Requests with a segment in this step, and how many of them take one token only. */
  readonly requests: Request[] = [];
  decodes = 0;
  promptTokens = 0;
  /** Requests whose prefix comes from the host tier with this record; they have no segment in it. */
  readonly restores: Restore[] = [];
  readonly tier = new TierOps();
  draftTokens = 0;
  private readonly ops = new WordList(64 * OP_WORDS);
  private readonly starts = new WordList(1024);
  private readonly segments = new WordList(64 * SEGMENT_WORDS);
  private readonly tokens = new WordList(4096);
  private readonly segmentOrder: number[] = [];
  private readonly notices = new WordList(64 * NOTICE_WORDS);

  begin(stepId: number, epoch: number): void {
    this.stepId = stepId;
    this.epoch = epoch;
    this.threads = 0;
    this.startCount = 0;
    this.requests.length = 0;
    this.restores.length = 0;
    this.decodes = 0;
    this.promptTokens = 0;
    this.draftTokens = 0;
    this.starts.clear();
    this.segments.clear();
    this.tokens.clear();
  }

  /** Ops and notices outlive `begin`: what ended between two steps rides in the next record. Notices over the limit wait. */
  sent(): void {
    this.ops.clear();
    this.tier.sent();
    const sentWords = this.noticeWords;
    this.notices.words.copyWithin(0, sentWords, this.notices.length);
    this.notices.length -= sentWords;
  }

  /** Words of the starts so far. */
  get startWords(): number {
    return this.starts.length;
  }

  private get noticeWords(): number {
    return Math.min(this.notices.length, RECORD_NOTICES_MAX * NOTICE_WORDS);
  }

  get hasWork(): boolean {
    return this.segments.length > 0 || this.restores.length > 0;
  }

  get hasNotices(): boolean {
    return this.notices.length > 0;
  }

  /** The context is new: removals planned for the old one have lost their object. */
  dropOps(): void {
    this.ops.clear();
  }

  addOp(kind: number, sequence: number, destination: number, from: number, to: number): void {
    const at = this.ops.grow(OP_WORDS);
    const words = this.ops.words;
    words[at] = kind;
    words[at + 1] = sequence;
    words[at + 2] = destination;
    words[at + 3] = from;
    words[at + 4] = to;
  }

  /** An operation planned so far changes the cells of `sequence`: before the record they are not what they will be. */
  changesCells(sequence: number): boolean {
    const { words, length } = this.ops;
    for (let at = 0; at < length; at += OP_WORDS) {
      const kind = words[at + OP.kind];
      const changed = words[at + (kind === OP_KIND.copy ? OP.destination : OP.sequence)];
      if (kind !== OP_KIND.stop && changed === sequence) return true;
    }
    return false;
  }

  /** Binds a request to its sequence, with the history its penalties need. */
  addStart(request: Request): void {
    const historyCount = historyCountOf(request);
    const sampling = request.spec.sampling;
    const at = this.starts.grow(START_WORDS + historyCount + sampling.length);
    const words = this.starts.words;
    words[at] = request.sequence;
    words[at + 1] = request.id;
    words[at + 2] = historyCount;
    words[at + 3] = request.knownCount - request.promptCount;
    words.set(request.tokens.subarray(request.knownCount - historyCount, request.knownCount), at + START_WORDS);
    words.set(sampling, at + START_WORDS + historyCount);
    this.startCount++;
  }

  /** `count` tokens of the request from its computed end; sampled after the last one when that is its newest token. */
  addSegment(request: Request, count: number, sample: boolean): void {
    const first = request.computedCount;
    const isPlaceholder = first >= request.knownCount;
    if (isPlaceholder && count !== 1)
      throw new Error(`request ${request.id}: ${count} tokens planned, one at most is unknown`);
    if (!isPlaceholder && first + count > request.knownCount)
      throw new Error(`request ${request.id}: a segment mixes known and unknown tokens`);
    let tokenIndex = PLACEHOLDER;
    if (!isPlaceholder) {
      tokenIndex = this.tokens.grow(count);
      const source = request.tokens;
      const target = this.tokens.words;
      for (let i = 0; i < count; i++) target[tokenIndex + i] = source[first + i];
    }
    this.addSegmentWords(request, count, tokenIndex, sample ? 1 : 0);
  }

  /** The request's newest token, which is known, and `drafts` behind it: sampled after each of them, as long as they are right. */
  addDraftSegment(request: Request, drafts: Int32Array): void {
    const first = request.computedCount;
    if (first !== request.knownCount - 1)
      throw new Error(`request ${request.id}: drafts follow the newest token alone`);
    const count = 1 + drafts.length;
    const tokenIndex = this.tokens.grow(count);
    this.tokens.words[tokenIndex] = request.tokens[first];
    this.tokens.words.set(drafts, tokenIndex + 1);
    this.addSegmentWords(request, count, tokenIndex, count);
    this.draftTokens += drafts.length;
  }

  private addSegmentWords(request: Request, count: number, tokenIndex: number, samples: number): void {
    const at = this.segments.grow(SEGMENT_WORDS);
    const words = this.segments.words;
    words[at] = request.sequence;
    words[at + 1] = request.computedCount;
    words[at + 2] = count;
    words[at + 3] = tokenIndex;
    words[at + 4] = samples;
    words[at + 5] = request.id;
    this.requests.push(request);
  }

  addNotice(requestId: number, kind: number, a: number, b: number): void {
    const at = this.notices.grow(NOTICE_WORDS);
    const words = this.notices.words;
    words[at] = requestId;
    words[at + 1] = kind;
    words[at + 2] = a;
    words[at + 3] = b;
  }

  /** Words to reserve: those of the record, and the tier's operations behind it. */
  get recordWords(): number {
    return this.totalWords + this.tier.words;
  }

  /** Words of the record. */
  get totalWords(): number {
    return (
      BATCH_HEADER_WORDS +
      this.ops.length +
      this.starts.length +
      this.segments.length +
      this.tokens.length +
      this.noticeWords
    );
  }

  /**
   * Segments and their tokens, in order of the sequences: private streams are computed in runs of consecutive ones, so an order by arrival would fall apart into
   * many small computations.
   */
  private encodeSegments(words: Int32Array, at: number): number {
    const { words: source, length } = this.segments;
    const starts = this.segmentOrder;
    starts.length = 0;
    for (let start = 0; start < length; start += SEGMENT_WORDS) starts.push(start);
    starts.sort((a, b) => source[a + SEGMENT.sequence] - source[b + SEGMENT.sequence]);
    const tokensAt = at + length;
    let tokenCount = 0;
    for (const start of starts) {
      for (let word = 0; word < SEGMENT_WORDS; word++) words[at + word] = source[start + word];
      const from = source[start + SEGMENT.tokenIndex];
      if (from !== PLACEHOLDER) {
        words[at + SEGMENT.tokenIndex] = tokenCount;
        const count = source[start + SEGMENT.count];
        for (let i = 0; i < count; i++) words[tokensAt + tokenCount + i] = this.tokens.words[from + i];
        tokenCount += count;
      }
      at += SEGMENT_WORDS;
    }
    if (tokenCount !== this.tokens.length) throw new Error('a batch record has tokens that are in no segment');
    return tokensAt + tokenCount;
  }

  /** Writes the record and what follows it, `recordWords` long, into `words` from `at`. */
  encode(words: Int32Array, at: number): void {
    words.fill(0, at, at + BATCH_HEADER_WORDS);
    words[at + BATCH_HEADER.stepId] = this.stepId;
    words[at + BATCH_HEADER.epoch] = this.epoch;
    words[at + BATCH_HEADER.opCount] = this.ops.length / OP_WORDS;
    words[at + BATCH_HEADER.startCount] = this.startCount;
    words[at + BATCH_HEADER.startWords] = this.starts.length;
    words[at + BATCH_HEADER.segmentCount] = this.segments.length / SEGMENT_WORDS;
    words[at + BATCH_HEADER.tokenCount] = this.tokens.length;
    words[at + BATCH_HEADER.noticeCount] = this.noticeWords / NOTICE_WORDS;
    words[at + BATCH_HEADER.totalWords] = this.totalWords;
    words[at + BATCH_HEADER.threads] = this.threads;
    let to = at + BATCH_HEADER_WORDS;
    to = copy(this.ops.words, this.ops.length, words, to);
    to = copy(this.starts.words, this.starts.length, words, to);
    to = this.encodeSegments(words, to);
    to = copy(this.notices.words, this.noticeWords, words, to);
    if (to !== at + this.totalWords) throw new Error('a batch record is not as long as it was announced');
    this.tier.encode(words, to);
  }
}

/** Short lists are the rule: a loop beats subarray and set. Returns the index after the last word. */
function copy(source: Int32Array, length: number, target: Int32Array, at: number): number {
  for (let i = 0; i < length; i++) target[at + i] = source[i];
  return at + length;
}

/** Words that the start of `request` takes in a record. */
export function startWordsOf(request: Request): number {
  return START_WORDS + historyCountOf(request) + request.spec.sampling.length;
}

/** Tokens that the sampler must know: those that penalties look at, and all that a grammar has accepted before. */
function historyCountOf(request: Request): number {
  const { penaltyLastTokens, sampling } = request.spec;
  const sampledBefore = request.knownCount - request.promptCount;
  const forPenalties = penaltyLastTokens < 0 ? request.knownCount : penaltyLastTokens;
  const forGrammar = sampling[SAMPLING.grammarBytes] > 0 ? sampledBefore : 0;
  return Math.min(request.knownCount, Math.max(forPenalties, forGrammar));
}
