/** What each sequence's cells hold, worked out from batch records alone: a second reading of them, apart from scheduler and engine. */
import {
  BATCH_HEADER,
  BATCH_HEADER_WORDS,
  OP,
  OP_KIND,
  OP_WORDS,
  PLACEHOLDER,
  SEGMENT,
  SEGMENT_WORDS,
} from '../../src/shared/batch-wire.js';
import type { KvLayout } from '../../src/shared/engine.js';
import { SAMPLE_FLAGS_DONE } from '../../src/shared/step-output.js';
import type { StepSample } from './batch-record.js';

/** A token was sampled for `request` behind exactly `context`. */
export interface Sampling {
  request: number;
  context: number[];
}

export class CellBook {
  readonly #cells: number[][];
  /** The token that a placeholder stands for; null: the sequence has ended, and placeholders for it are dropped. */
  readonly #last: (number | null)[];

  constructor(
    sequences: number,
    private readonly layout: KvLayout,
  ) {
    this.#cells = Array.from({ length: sequences }, () => []);
    this.#last = Array.from({ length: sequences }, () => null);
  }

  /** Follows one record. Returns behind what each token was sampled, in the record's order. @throws where a segment leaves a hole. */
  follow(record: Int32Array): Sampling[] {
    const opCount = record[BATCH_HEADER.opCount];
    for (let i = 0; i < opCount; i++) this.#applyOp(record, BATCH_HEADER_WORDS + i * OP_WORDS);
    const segmentsAt = BATCH_HEADER_WORDS + opCount * OP_WORDS + record[BATCH_HEADER.startWords];
    const tokensAt = segmentsAt + record[BATCH_HEADER.segmentCount] * SEGMENT_WORDS;
    return Array.from({ length: record[BATCH_HEADER.segmentCount] }, (_, i) =>
      this.#applySegment(record, segmentsAt + i * SEGMENT_WORDS, tokensAt),
    ).flat();
  }

  /** What the engine sampled for that record. */
  sampled(samples: readonly StepSample[]): void {
    for (const { sequence, token, flags } of samples)
      this.#last[sequence] = (flags & SAMPLE_FLAGS_DONE) === 0 ? token : null;
  }

  #applyOp(record: Int32Array, at: number): void {
    const sequence = record[at + OP.sequence];
    const from = record[at + OP.from];
    const to = record[at + OP.to];
    switch (record[at + OP.kind]) {
      case OP_KIND.remove:
      case OP_KIND.evict:
        this.#cells[sequence].length = Math.min(from, this.#cells[sequence].length);
        break;
      case OP_KIND.copy: {
        const source = this.#cells[sequence];
        const end = this.layout === 'private' || to < 0 ? source.length : to;
        this.#cells[record[at + OP.destination]] = source.slice(0, end);
        break;
      }
      case OP_KIND.stop:
        this.#last[sequence] = null;
        break;
    }
  }

  #applySegment(record: Int32Array, at: number, tokensAt: number): Sampling[] {
    const sequence = record[at + SEGMENT.sequence];
    const request = record[at + SEGMENT.request];
    const tokenIndex = record[at + SEGMENT.tokenIndex];
    const count = record[at + SEGMENT.count];
    const cells = this.#cells[sequence];
    const last = this.#last[sequence];
    if (tokenIndex === PLACEHOLDER && last === null) return [];
    if (record[at + SEGMENT.position] !== cells.length)
      throw new Error(`request ${request}: position ${record[at + SEGMENT.position]} behind ${cells.length} cells`);
    if (tokenIndex === PLACEHOLDER) cells.push(last as number);
    else cells.push(...record.subarray(tokensAt + tokenIndex, tokensAt + tokenIndex + count));
    return record[at + SEGMENT.sample] === 1 ? [{ request, context: cells.slice() }] : [];
  }
}
