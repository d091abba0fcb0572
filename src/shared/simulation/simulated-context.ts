import {
  BATCH_HEADER,
  BATCH_HEADER_WORDS,
  OP,
  OP_KIND,
  OP_WORDS,
  PLACEHOLDER,
  SEGMENT,
  SEGMENT_WORDS,
  START,
  START_WORDS,
} from '../batch-wire.js';
import type { ContextSpec } from '../engine.js';
import { SAMPLING } from '../sampling-wire.js';
import { CellAccounting } from '../scheduler/cell-accounting.js';
import { SAMPLE_FLAG } from '../step-output.js';
import { scramble } from './random.js';

/** One token that a step sampled, in the words of result-wire.ts. */
export interface SimulatedSample {
  sequence: number;
  request: number;
  token: number;
  flags: number;
}

/** What one record did. */
export interface StepWork {
  samples: SimulatedSample[];
  decodes: number;
  promptTokens: number;
  /** Pairs of a new token and a cell that it attends to. */
  attentionPairs: number;
  /** Evict ops of the record; they were applied before its first segment. */
  evictions: number;
}

interface Sampler {
  request: number;
  sampled: number;
  maxTokens: number;
  isOver: boolean;
}

/** Ids below it are left to nothing in particular; the vocabulary of a simulation is this large. */
export const VOCABULARY_SIZE = 50_000;

/**
 * The engine's side of a context, by the engine's own rules and with books of its own: what the scheduler believes about cells is
 * checked against what its records really do.
 */
export class SimulatedContext {
  private readonly cells: CellAccounting;
  private readonly samplers: Array<Sampler | null>;

  constructor(
    readonly spec: ContextSpec,
    /** Output tokens after which a request ends by itself. */
    private readonly answerTokensOf: (request: number) => number,
  ) {
    this.cells = new CellAccounting(spec.layout, spec.cells, spec.sequences);
    this.samplers = new Array<Sampler | null>(spec.sequences).fill(null);
  }

  get usedCells(): number {
    return this.cells.usedCells;
  }

  length(sequence: number): number {
    return this.cells.length(sequence);
  }

  /** Puts a saved sequence back. False: it does not fit. */
  restore(sequence: number, tokens: number): boolean {
    if (tokens > this.cells.freeFor(sequence)) return false;
    this.cells.append(sequence, tokens);
    return true;
  }

  /** Applies one record. @throws Error where the real engine would refuse it: no cell free, a gap between positions. */
  step(words: Int32Array): StepWork {
    const work: StepWork = { samples: [], decodes: 0, promptTokens: 0, attentionPairs: 0, evictions: 0 };
    let at = BATCH_HEADER_WORDS;
    for (let i = 0; i < words[BATCH_HEADER.opCount]; i++, at += OP_WORDS) this.applyOp(words, at, work);
    for (let i = 0; i < words[BATCH_HEADER.startCount]; i++) at = this.applyStart(words, at);
    for (let i = 0; i < words[BATCH_HEADER.segmentCount]; i++, at += SEGMENT_WORDS) this.applySegment(words, at, work);
    return work;
  }

  private applyOp(words: Int32Array, at: number, work: StepWork): void {
    const sequence = words[at + OP.sequence];
    switch (words[at + OP.kind]) {
      case OP_KIND.evict:
        work.evictions++;
        this.cells.truncate(sequence, words[at + OP.from]);
        return;
      case OP_KIND.remove:
        this.cells.truncate(sequence, words[at + OP.from]);
        return;
      case OP_KIND.copy: {
        const to = words[at + OP.to];
        this.cells.copyPrefix(sequence, words[at + OP.destination], to < 0 ? this.cells.length(sequence) : to);
        return;
      }
      case OP_KIND.stop:
        this.samplers[sequence] = null;
    }
  }

  private applyStart(words: Int32Array, at: number): number {
    const samplingAt = at + START_WORDS + words[at + START.historyCount];
    this.samplers[words[at + START.sequence]] = {
      request: words[at + START.request],
      sampled: words[at + START.sampledBefore],
      maxTokens: words[samplingAt + SAMPLING.maxTokens],
      isOver: false,
    };
    return samplingAt + words[samplingAt + SAMPLING.totalWords];
  }

  private applySegment(words: Int32Array, at: number, work: StepWork): void {
    const sequence = words[at + SEGMENT.sequence];
    const count = words[at + SEGMENT.count];
    const position = words[at + SEGMENT.position];
    const isPlaceholder = words[at + SEGMENT.tokenIndex] === PLACEHOLDER;
    const sampler = this.samplers[sequence];
    if (isPlaceholder && (sampler === null || sampler.isOver)) return;
    if (position !== this.cells.length(sequence)) {
      throw new Error(`a segment at position ${position} of a sequence of ${this.cells.length(sequence)} cells`);
    }
    this.cells.append(sequence, count);
    work.attentionPairs += count * (position + (count + 1) / 2);
    if (count === 1) work.decodes++;
    else work.promptTokens += count;
    if (words[at + SEGMENT.sample] !== 1) return;
    if (sampler === null || sampler.request !== words[at + SEGMENT.request]) {
      throw new Error(`a sample for request ${words[at + SEGMENT.request]}, which was never started`);
    }
    work.samples.push(this.sample(sequence, sampler));
  }

  private sample(sequence: number, sampler: Sampler): SimulatedSample {
    sampler.sampled++;
    const ends = sampler.sampled >= this.answerTokensOf(sampler.request);
    const isLast = sampler.sampled >= sampler.maxTokens;
    sampler.isOver = ends || isLast;
    return {
      sequence,
      request: sampler.request,
      token: answerToken(sampler.request, sampler.sampled - 1),
      flags: (ends && !isLast ? SAMPLE_FLAG.endOfGeneration : 0) | (isLast ? SAMPLE_FLAG.maxTokens : 0),
    };
  }
}

/** The token that request `id` gets at that place of its answer: the same whenever it is computed again. */
function answerToken(id: number, index: number): number {
  return (scramble(Math.imul(id, 0x3c6ef372) + index) >>> 0) % VOCABULARY_SIZE;
}
