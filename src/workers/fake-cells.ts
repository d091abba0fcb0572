import { type ContextSpec, EngineError } from '../shared/engine.js';
import { invalid } from './fake-checks.js';
import { EMPTY_HASH, nextHash } from './fake-tokens.js';

/** The engine rounds cells up to this. */
const CELL_ROUNDING = 256;

/** One sequence's tokens with the hash after each; in the shared pool also the cell that holds each. */
interface Row {
  length: number;
  tokens: Int32Array;
  hashes: Int32Array;
  cells: Int32Array;
}

const STATE_WORDS_PER_TOKEN = 2;

/**
 * Cells of a fake context, counted as the real one counts them: the shared pool by single cells with an owner count, private streams
 * by length. Every misuse that would corrupt or abort the real engine throws invalid_record.
 */
export class FakeCells {
  readonly cellCount: number;
  private readonly rows: Row[];
  private readonly isShared: boolean;
  /** Owners of each cell of the shared pool. */
  private readonly owners: Int32Array;
  /** Free cells of the shared pool, as a stack. */
  private readonly free: Int32Array;
  private freeCount: number;
  private privateUsed = 0;

  constructor(
    spec: ContextSpec,
    private readonly canTrim: boolean,
  ) {
    this.cellCount = roundedCells(spec.cells);
    this.isShared = spec.layout === 'shared';
    const pool = this.isShared ? this.cellCount : 0;
    this.owners = new Int32Array(pool);
    this.free = Int32Array.from({ length: pool }, (_, i) => pool - 1 - i);
    this.freeCount = pool;
    this.rows = Array.from({ length: spec.sequences }, () => emptyRow());
  }

  /** Cells in use; a cell of several sequences counts once. */
  get usedCells(): number {
    return this.isShared ? this.cellCount - this.freeCount : this.privateUsed;
  }

  lengthOf(sequence: number): number {
    return this.rows[sequence].length;
  }

  hashOf(sequence: number): number {
    const { length, hashes } = this.rows[sequence];
    return length === 0 ? EMPTY_HASH : hashes[length - 1];
  }

  lastTokenOf(sequence: number): number {
    const { length, tokens } = this.rows[sequence];
    return length === 0 ? -1 : tokens[length - 1];
  }

  /** Whether `sequence` can grow to `length` while the pool gives `poolTokens` cells to the batch as a whole. */
  hasRoom(length: number, poolTokens: number): boolean {
    return this.isShared ? poolTokens <= this.freeCount : length <= this.cellCount;
  }

  append(sequence: number, token: number): void {
    const row = this.rows[sequence];
    const at = row.length;
    if (at === row.tokens.length) grow(row, this.isShared);
    row.tokens[at] = token;
    row.hashes[at] = nextHash(at === 0 ? EMPTY_HASH : row.hashes[at - 1], token);
    if (this.isShared) {
      const cell = this.free[--this.freeCount];
      this.owners[cell] = 1;
      row.cells[at] = cell;
    } else {
      this.privateUsed++;
    }
    row.length = at + 1;
  }

  /** Removes positions [from, to); to < 0: to the end. */
  remove(sequence: number, from: number, to: number): void {
    const row = this.rows[sequence];
    if (from >= row.length) return;
    if (to >= 0 && to < row.length) {
      throw invalid(`remove [${from}, ${to}) of sequence ${sequence} leaves a hole before position ${row.length}`);
    }
    if (from > 0 && !this.canTrim) {
      throw invalid(`remove from ${from} of sequence ${sequence}: this model's sequences can only be removed whole`);
    }
    if (this.isShared) for (let i = from; i < row.length; i++) this.disown(row.cells[i]);
    else this.privateUsed -= row.length - from;
    row.length = from;
  }

  /** Copies positions [0, to) to an empty sequence; to < 0: all. */
  copy(source: number, destination: number, from: number, to: number): void {
    const row = this.rows[source];
    const end = to < 0 ? row.length : to;
    if (from !== 0) throw invalid(`copy of sequence ${source} from ${from}: only a prefix can be copied`);
    if (end > row.length) throw invalid(`copy of ${end} tokens of sequence ${source}, which has ${row.length}`);
    if (end < row.length && !this.canTrim)
      throw invalid(`copy of a part of sequence ${source}: this model cannot trim`);
    if (source === destination) throw invalid(`copy of sequence ${source} onto itself`);
    const target = this.rows[destination];
    if (target.length !== 0) throw invalid(`copy onto sequence ${destination}, which has ${target.length} tokens`);
    while (target.tokens.length < end) grow(target, this.isShared);
    target.tokens.set(row.tokens.subarray(0, end));
    target.hashes.set(row.hashes.subarray(0, end));
    if (this.isShared) {
      for (let i = 0; i < end; i++) this.owners[(target.cells[i] = row.cells[i])]++;
    } else {
      this.privateUsed += end;
    }
    target.length = end;
  }

  save(sequence: number): Uint8Array {
    const { length, tokens, hashes } = this.rows[sequence];
    const words = new Int32Array(length * STATE_WORDS_PER_TOKEN);
    words.set(tokens.subarray(0, length));
    words.set(hashes.subarray(0, length), length);
    return new Uint8Array(words.buffer);
  }

  /** False when the state does not fit. @throws invalid_argument when the sequence is in use or the bytes are not a state. */
  restore(sequence: number, state: Uint8Array): boolean {
    const length = state.length / (4 * STATE_WORDS_PER_TOKEN);
    if (!Number.isInteger(length)) throw new EngineError('invalid_argument', `a state of ${state.length} bytes`);
    if (this.rows[sequence].length !== 0) {
      throw new EngineError('invalid_argument', `restore into sequence ${sequence}, which is not empty`);
    }
    if (!this.hasRoom(length, length)) return false;
    const words = new Int32Array(state.slice().buffer, 0, length);
    for (const token of words) this.append(sequence, token);
    return true;
  }

  private disown(cell: number): void {
    if (--this.owners[cell] === 0) this.free[this.freeCount++] = cell;
  }
}

export function roundedCells(cells: number): number {
  return Math.ceil(cells / CELL_ROUNDING) * CELL_ROUNDING;
}

function emptyRow(): Row {
  return { length: 0, tokens: new Int32Array(0), hashes: new Int32Array(0), cells: new Int32Array(0) };
}

function grow(row: Row, isShared: boolean): void {
  const capacity = Math.max(CELL_ROUNDING, row.tokens.length * 2);
  row.tokens = enlarged(row.tokens, capacity);
  row.hashes = enlarged(row.hashes, capacity);
  if (isShared) row.cells = enlarged(row.cells, capacity);
}

function enlarged(values: Int32Array, capacity: number): Int32Array {
  const larger = new Int32Array(capacity);
  larger.set(values);
  return larger;
}
