import { RUNG_NONE } from '../shared/context-wire.js';
import { type ContextInfo, type ContextSpec, type Engine, EngineError } from '../shared/engine.js';
import type { SequenceMove } from '../shared/scheduler/carry-over.js';
import type { SequenceSpill, SpilledSequence } from './sequence-spill.js';

/** A context that fails to come back is tried this often, with a growing pause. Chosen: memory pressure passes in seconds or not at all. */
const REBUILD_ATTEMPTS = 5;
const REBUILD_PAUSE_MS = 200;

export interface ContextMove {
  /** null: the context is put away. */
  context: ContextInfo | null;
  rung: number;
  /** Sequences whose cells stand in the new context, by their numbers in the old one. */
  carried: number[];
}

interface Copy extends SequenceMove {
  state: Uint8Array;
}

/** Sequences that a move carries over. */
export interface KeptSequences {
  copied: readonly SequenceMove[];
  spilled: readonly SequenceMove[];
  /** These go through files: in at most so many ms and bytes, of which so many may stay in the system's file cache. */
  spillMs: number;
  spillBytes: number;
  cacheBytes: number;
}

export const KEEP_NOTHING: KeptSequences = { copied: [], spilled: [], spillMs: 0, spillBytes: 0, cacheBytes: 0 };

/** The forward worker's contexts: moves sequences between the rungs of the ladder, and makes a lost context anew. */
export class ContextKeeper {
  constructor(
    private readonly engine: Engine,
    private readonly ladder: readonly ContextSpec[],
    public rung: number,
    private readonly spill: SequenceSpill,
    private readonly warn: (message: string) => void,
    private readonly pause: (ms: number) => void,
  ) {}

  /**
   * Replaces the context by the one of `rung`, with the cells of the sequences in `keep`. Where that one does not fit after all, the old
   * rung comes back; what cannot be carried over is left behind. @throws EngineError when no context can be made.
   */
  move(rung: number, keep: KeptSequences): ContextMove {
    if (rung === RUNG_NONE) {
      this.engine.freeContext();
      this.rung = RUNG_NONE;
      return { context: null, rung, carried: [] };
    }
    // Files first: while they are written, copies would only lie there.
    const spilled = this.spill.write(keep.spilled, keep);
    const copies = keep.copied.flatMap((move) => this.copy(move));
    const context = this.replaceBeside(rung, copies, spilled);
    // Copies may be as large as the headroom: each goes as soon as its cells stand, not when the heap is cleaned one day.
    const isCopyBack = ({ to, state }: Copy) => {
      const isRestored = to < context.sequences && this.engine.restoreSequence(to, state);
      this.engine.releaseState(state);
      return isRestored;
    };
    const carried = [
      ...copies.filter(isCopyBack).map(({ from }) => from),
      ...spilled.filter((file) => this.spill.read(file, context.sequences)).map(({ from }) => from),
    ];
    return { context, rung: this.rung, carried };
  }

  /** @throws EngineError when no context can be made: then nobody needs what was kept. */
  private replaceBeside(rung: number, copies: readonly Copy[], spilled: readonly SpilledSequence[]): ContextInfo {
    try {
      return this.replace(rung);
    } catch (error) {
      for (const { state } of copies) this.engine.releaseState(state);
      for (const file of spilled) this.spill.drop(file);
      throw error;
    }
  }

  /** Nothing where there is no memory for it after all, or the engine cannot save it now. */
  private copy(move: SequenceMove): Copy[] {
    try {
      return [{ ...move, state: this.engine.saveSequence(move.from) }];
    } catch (error) {
      if (!(error instanceof EngineError)) throw error;
      this.warn(`a sequence is computed again: ${error.message}`);
      return [];
    }
  }

  private replace(rung: number): ContextInfo {
    const before = this.rung;
    try {
      const context = this.engine.createContext(this.ladder[rung]);
      this.rung = rung;
      return context;
    } catch (error) {
      if (!(error instanceof EngineError) || error.code !== 'out_of_memory') throw error;
      this.warn(`a context of ${this.ladder[rung].cells} cells does not fit: ${error.message}`);
      this.rung = before !== RUNG_NONE && this.cellsOf(before) <= this.cellsOf(rung) ? before : 0;
      return this.rebuild();
    }
  }

  /** Of all streams. */
  private cellsOf(rung: number): number {
    const { layout, cells, sequences } = this.ladder[rung];
    return layout === 'private' ? cells * sequences : cells;
  }

  /** The same context, empty. Where it does not fit any more, a lower rung. @throws EngineError when none can be made. */
  rebuild(): ContextInfo {
    for (let attempt = 1; ; attempt++) {
      try {
        return this.engine.createContext(this.ladder[Math.max(this.rung, 0)]);
      } catch (error) {
        if (this.rung > 0) this.rung--;
        else if (attempt >= REBUILD_ATTEMPTS) throw error;
        this.warn(`the context could not be made (${String(error)}): attempt ${attempt}`);
        this.pause(REBUILD_PAUSE_MS * attempt);
      }
    }
  }
}
