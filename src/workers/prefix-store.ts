import type { Doorbell } from '../shared/doorbell.js';
import { type Engine, EngineError } from '../shared/engine.js';
import { TIER_OP, TIER_OP_KIND, TIER_OP_WORDS } from '../shared/tier-wire.js';
import { DiskPump } from './disk-pump.js';

/**
 * The bytes of the host tier, by slot: states of sequences that were copied out of the context before they were evicted. It does what the
 * records say (tier-wire.ts); what is kept, and for how long, is decided by the scheduler. A copy that fails is reported and costs no
 * more than computing its tokens.
 */
export class PrefixStore {
  private readonly states = new Map<number, Uint8Array>();
  private held = 0;
  private micros = 0;
  private readonly failedSlots: number[] = [];

  private pump: DiskPump | null = null;

  constructor(private readonly engine: Engine) {}

  /** From now on states can be written to the disk, and come from there, through the window `link`. */
  useDisk(link: SharedArrayBuffer, diskBell: Doorbell): void {
    this.pump = new DiskPump(link, diskBell, {
      stateOf: (slot) => this.states.get(slot),
      adopt: (slot, state) => this.put(slot, state),
      release: (state) => this.engine.releaseState(state),
    });
  }

  /** Bytes that the saved states take, with one that comes from the disk. */
  get bytes(): number {
    return this.held + (this.pump?.incomingBytes ?? 0);
  }

  /** Moves some bytes to or from the disk worker. Returns whether there were any. `stepMs`: of the last step. */
  turnPump(stepMs: number): boolean {
    return this.pump?.turn(stepMs) ?? false;
  }

  /** Numbers of what is there. */
  get slots(): number[] {
    return [...this.states.keys()];
  }

  /** Of the last record: what its copies took, and the slots that could not be saved or restored. */
  get copyMicros(): number {
    return Math.round(this.micros);
  }

  get failed(): readonly number[] {
    return this.failedSlots;
  }

  /** Drops and saves of the record whose operations lie in `words` from `at` to `end`. `isCurrent`: it was planned for the context that stands. */
  beforeStep(words: Int32Array, at: number, end: number, isCurrent: boolean): void {
    this.pump?.settle();
    this.failedSlots.length = 0;
    this.micros = 0;
    for (let op = at; op < end; op += TIER_OP_WORDS) {
      const kind = words[op + TIER_OP.kind];
      const slot = words[op + TIER_OP.slot];
      if (kind === TIER_OP_KIND.drop) this.drop(slot);
      else if (kind === TIER_OP_KIND.save)
        this.attempt(slot, isCurrent && this.save(slot, words[op + TIER_OP.sequence]));
    }
  }

  /** Restores of the same record. `isDone`: its step has emptied their sequences. */
  afterStep(words: Int32Array, at: number, end: number, isDone: boolean): void {
    for (let op = at; op < end; op += TIER_OP_WORDS) {
      const kind = words[op + TIER_OP.kind];
      const slot = words[op + TIER_OP.slot];
      if (kind !== TIER_OP_KIND.restore && kind !== TIER_OP_KIND.take) continue;
      this.attempt(slot, isDone && this.restore(slot, words[op + TIER_OP.sequence]));
      if (kind === TIER_OP_KIND.take) this.drop(slot);
    }
  }

  /** Everything goes back to the system. */
  clear(): void {
    this.pump?.clear();
    for (const slot of [...this.states.keys()]) this.drop(slot);
  }

  private attempt(slot: number, isDone: boolean): void {
    if (!isDone) this.failedSlots.push(slot);
  }

  private save(slot: number, sequence: number): boolean {
    return this.timed(() => {
      const state = this.engine.saveSequence(sequence);
      this.put(slot, state);
      return true;
    });
  }

  private put(slot: number, state: Uint8Array): void {
    this.drop(slot);
    this.states.set(slot, state);
    this.held += state.byteLength;
  }

  private restore(slot: number, sequence: number): boolean {
    const state = this.states.get(slot);
    return state !== undefined && this.timed(() => this.engine.restoreSequence(sequence, state));
  }

  private timed(copy: () => boolean): boolean {
    const startMs = performance.now();
    try {
      return copy();
    } catch (error) {
      // No memory for the copy, or a stream whose own copy is still to come: the prefix is computed again, and that is all.
      if (error instanceof EngineError) return false;
      throw error;
    } finally {
      this.micros += (performance.now() - startMs) * 1000;
    }
  }

  private drop(slot: number): void {
    this.pump?.drop(slot);
    const state = this.states.get(slot);
    if (!state) return;
    this.states.delete(slot);
    this.held -= state.byteLength;
    this.engine.releaseState(state);
  }
}
