import type { KvLayout } from '../engine.js';

/**
 * A run of cells that one or more sequences hold together. A sequence is a list of runs; copying a prefix shares runs, and a run is
 * cut in two where a copy or a removal ends inside it.
 */
interface Run {
  length: number;
  holders: Set<number>;
}

/**
 * Exact count of KV cells in use, by the engine's rules. Shared pool: every sequence takes cells from one pool and shared prefixes
 * count once. Private streams: every sequence has `cellsPerSequence` of its own, and a copy is a copy.
 */
export class CellAccounting {
  private readonly runs: Run[][];
  private readonly lengths: Int32Array;
  private used = 0;

  constructor(
    private readonly layout: KvLayout,
    /** Cells of the pool (shared), or of each stream (private). */
    readonly cells: number,
    readonly sequences: number,
  ) {
    this.runs = Array.from({ length: sequences }, () => []);
    this.lengths = new Int32Array(sequences);
  }

  get totalCells(): number {
    return this.layout === 'shared' ? this.cells : this.cells * this.sequences;
  }

  get usedCells(): number {
    return this.used;
  }

  length(sequence: number): number {
    return this.lengths[sequence];
  }

  /** Cells that `sequence` may still take: the pool's rest, or its stream's. */
  freeFor(sequence: number): number {
    return this.layout === 'shared' ? this.cells - this.used : this.cells - this.lengths[sequence];
  }

  /** Cells that removing the whole sequence would give back to the pool: those it shares with nobody. */
  ownCells(sequence: number): number {
    let own = 0;
    for (const run of this.runs[sequence]) if (run.holders.size === 1) own += run.length;
    return own;
  }

  /** Cells that any of the chosen sequences holds, shared ones once. */
  countHeld(isChosen: (sequence: number) => boolean): number {
    const seen = new Set<Run>();
    let held = 0;
    for (let sequence = 0; sequence < this.sequences; sequence++) {
      if (!isChosen(sequence)) continue;
      for (const run of this.runs[sequence]) {
        if (run.holders.size > 1) {
          if (seen.has(run)) continue;
          seen.add(run);
        }
        held += run.length;
      }
    }
    return held;
  }

  append(sequence: number, count: number): void {
    if (count > this.freeFor(sequence))
      throw new Error(`sequence ${sequence} takes ${count} cells, free are ${this.freeFor(sequence)}`);
    const runs = this.runs[sequence];
    const last = runs.at(-1);
    if (last && last.holders.size === 1) last.length += count;
    else runs.push({ length: count, holders: new Set([sequence]) });
    this.lengths[sequence] += count;
    this.used += count;
  }

  /** Removes positions from `from` to the end. */
  truncate(sequence: number, from: number): void {
    if (from >= this.lengths[sequence]) return;
    const keep = this.cutAt(sequence, from);
    const runs = this.runs[sequence];
    for (const run of runs.splice(keep)) {
      run.holders.delete(sequence);
      if (run.holders.size === 0) this.used -= run.length;
    }
    this.lengths[sequence] = from;
  }

  /** Gives `destination`, which must be empty, the first `count` cells of `source`. */
  copyPrefix(source: number, destination: number, count: number): void {
    if (this.lengths[destination] !== 0) throw new Error(`sequence ${destination} is not empty`);
    if (count > this.lengths[source]) throw new Error(`sequence ${source} has no ${count} cells to copy`);
    if (count === 0) return;
    if (this.layout === 'private') {
      this.append(destination, count);
      return;
    }
    const keep = this.cutAt(source, count);
    for (const run of this.runs[source].slice(0, keep)) {
      run.holders.add(destination);
      this.runs[destination].push(run);
    }
    this.lengths[destination] = count;
  }

  /** Makes a run boundary at `position` and returns how many runs of the sequence lie before it. */
  private cutAt(sequence: number, position: number): number {
    const runs = this.runs[sequence];
    let start = 0;
    for (let i = 0; i < runs.length; i++) {
      const run = runs[i];
      if (position <= start) return i;
      if (position < start + run.length) {
        const rest: Run = { length: start + run.length - position, holders: new Set(run.holders) };
        run.length = position - start;
        for (const holder of rest.holders) this.runs[holder].splice(this.runs[holder].indexOf(run) + 1, 0, rest);
        return i + 1;
      }
      start += run.length;
    }
    return runs.length;
  }
}
