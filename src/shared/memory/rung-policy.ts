import { RUNG_NONE } from '../context-wire.js';

/** What the policy looks at. Cells are of the pool (shared) or of one stream (private). */
export interface RungInput {
  nowMs: number;
  /** Index in the ladder; RUNG_NONE: the context is put away. */
  rung: number;
  /** The last plan would have liked so many; 0: no wish. */
  wantedCells: number;
  /** What running requests hold. */
  busyCells: number;
  /** What sequences hold, cached ones included, each counted by itself: copies of it exist while the context moves. */
  usedCells: number;
  hasWork: boolean;
  headroomBytes: number;
  /** 0 none, 1 warning, 2 critical. */
  pressureLevel: number;
}

export interface RungLimits {
  rungs: ReadonlyArray<{ cells: number; bytes: number }>;
  /** Bytes of one cell's keys and values. */
  cellBytes: number;
  /** The plan's margin. */
  marginBytes: number;
  /** Without work for so long, the context is put away; 0: never. */
  idleReleaseMs: number;
}

export interface RungMove {
  rung: number;
  reason: string;
  /** What copies of sequences may take while the context moves: they lie beside the old context, then beside the new one. */
  copyBytes: number;
}

type Move = Pick<RungMove, 'rung' | 'reason'>;

/** Pressure must last this long. Chosen: one reading may be a spike, and readings come several times a second. */
const PRESSURE_MS = 500;
/** Between two moves that nobody waits for. Chosen: a move pauses requests. */
const COOL_DOWN_MS = 3_000;
/** After pressure the ladder is not climbed for so long. Chosen: less than the five seconds in which throughput must be back. */
const CALM_MS = 2_000;
/** Part of the margin that a climb must leave. Chosen: what the backend takes beyond the plan, for which a part of the margin is there, shows
 *  in the readings by then; a whole margin would keep a tight plan off its own top for good. */
const CLIMB_MARGIN_SHARE = 0.75;
/** A climb for which sequences must be left behind, and computed again, waits until nothing has pressed or moved for so long. Chosen: they
 *  cost seconds, and a pressure that comes and goes must not cost them each time. */
const COSTLY_CALM_MS = 10_000;
/** Readings may be so old: what a climb took before is charged for so long, whether they show it yet or not. Chosen: four times the age of
 *  an idle server's reading. */
const READING_AGE_MS = 1_000;
/** Part of the margin that copies leave free. Chosen: they live for some 100 ms, in which little else grows. */
const COPY_MARGIN_SHARE = 0.25;

/**
 * When the context moves on its ladder: up when requests ask for cells and the headroom allows it, down under lasting pressure, off when
 * idle, on again with the next request. Pure: time comes in.
 */
export class RungPolicy {
  private pressedSinceMs: number | null = null;
  private lastPressedMs = Number.NEGATIVE_INFINITY;
  private lastMoveMs = Number.NEGATIVE_INFINITY;
  private lastWorkMs: number;
  /** What climbs of the last READING_AGE_MS took. */
  private freshGrowthBytes = 0;

  constructor(
    private readonly limits: RungLimits,
    nowMs: number,
  ) {
    this.lastWorkMs = nowMs;
  }

  /** Whether a climb to a rung of at least `cells` would be granted now. */
  canClimb(input: RungInput): boolean {
    return this.climbTarget({ ...input, wantedCells: Math.max(1, input.wantedCells) }) !== null;
  }

  /** Whether `decide` would move the context: steps in flight must end first, and no other may follow them. */
  wantsMove(input: RungInput): boolean {
    return this.propose(input) !== null;
  }

  /** The move to make now. The policy takes its word for a deed. */
  decide(input: RungInput): RungMove | null {
    const move = this.propose(input);
    if (!move) return null;
    const copyBytes = this.copyBytes(input, move.rung);
    this.freshGrowthBytes = this.unreadBytes(input.nowMs) + Math.max(this.growthBytes(input.rung, move.rung), 0);
    this.lastMoveMs = input.nowMs;
    return { ...move, copyBytes };
  }

  private propose(input: RungInput): Move | null {
    if (input.hasWork) this.lastWorkMs = input.nowMs;
    this.notePressure(input);
    return this.comeBack(input) ?? this.release(input) ?? this.shrink(input) ?? this.climb(input);
  }

  private growthBytes(from: number, to: number): number {
    const bytesOf = (rung: number) => (rung === RUNG_NONE ? 0 : this.limits.rungs[rung].bytes);
    return bytesOf(to) - bytesOf(from);
  }

  private unreadBytes(nowMs: number): number {
    return nowMs - this.lastMoveMs < READING_AGE_MS ? this.freshGrowthBytes : 0;
  }

  /** Copies are charged against what is left beside the larger of the two contexts: each holds its shared cells for itself. */
  private copyBytes({ nowMs, rung, headroomBytes }: RungInput, target: number): number {
    if (rung === RUNG_NONE || target === RUNG_NONE) return 0;
    const takenBytes = Math.max(this.growthBytes(rung, target), 0) + this.unreadBytes(nowMs);
    return Math.max(headroomBytes - takenBytes - this.limits.marginBytes * COPY_MARGIN_SHARE, 0);
  }

  private notePressure({ nowMs, headroomBytes, pressureLevel }: RungInput): void {
    const isPressed = pressureLevel >= 2 || headroomBytes < this.limits.marginBytes / 2;
    if (isPressed) {
      this.pressedSinceMs ??= nowMs;
      this.lastPressedMs = nowMs;
    } else {
      this.pressedSinceMs = null;
    }
  }

  private comeBack(input: RungInput): Move | null {
    if (input.rung !== RUNG_NONE || !input.hasWork) return null;
    return { rung: this.smallestFor(input.wantedCells), reason: 'a request came' };
  }

  private release({ nowMs, rung, hasWork }: RungInput): Move | null {
    const { idleReleaseMs } = this.limits;
    if (rung === RUNG_NONE || hasWork || idleReleaseMs === 0 || nowMs - this.lastWorkMs < idleReleaseMs) return null;
    return { rung: RUNG_NONE, reason: `no request for ${Math.round(idleReleaseMs / 1000)} s` };
  }

  private shrink(input: RungInput): Move | null {
    const { nowMs, rung } = input;
    if (rung <= 0 || this.pressedSinceMs === null || nowMs - this.pressedSinceMs < PRESSURE_MS) return null;
    if (nowMs - this.lastMoveMs < COOL_DOWN_MS) return null;
    // Running requests that do not fit below are computed again. They would be lost with everything else if the kernel had to choose.
    const target = Math.min(this.smallestFor(input.busyCells), rung - 1);
    return { rung: target, reason: `memory pressure: ${input.headroomBytes} bytes of headroom` };
  }

  private climb(input: RungInput): Move | null {
    if (input.wantedCells === 0) return null;
    const target = this.climbTarget(input);
    return target === null ? null : { rung: target, reason: `requests ask for ${input.wantedCells} cells` };
  }

  /** The smallest rung that grants the wish, else the highest that fits and is higher than this one. */
  private climbTarget(input: RungInput): number | null {
    const { nowMs, rung, wantedCells } = input;
    const { rungs } = this.limits;
    if (rung === RUNG_NONE || rung >= rungs.length - 1) return null;
    if (nowMs - this.lastPressedMs < CALM_MS) return null;
    const wanted = Math.max(this.smallestFor(wantedCells), rung + 1);
    for (let target = wanted; target > rung; target--) if (this.fits(input, target)) return target;
    return null;
  }

  private fits(input: RungInput, target: number): boolean {
    const { nowMs, rung, usedCells, headroomBytes } = input;
    const { marginBytes, cellBytes } = this.limits;
    const leftBytes = headroomBytes - this.unreadBytes(nowMs) - this.growthBytes(rung, target);
    if (leftBytes < marginBytes * CLIMB_MARGIN_SHARE) return false;
    const isCalm = nowMs - Math.max(this.lastPressedMs, this.lastMoveMs) >= COSTLY_CALM_MS;
    return isCalm || usedCells * cellBytes <= this.copyBytes(input, target);
  }

  private smallestFor(cells: number): number {
    const index = this.limits.rungs.findIndex((rung) => rung.cells >= cells);
    return index < 0 ? this.limits.rungs.length - 1 : index;
  }
}
