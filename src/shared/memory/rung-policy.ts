import { RUNG_NONE } from '../context-wire.js';
import { HeadroomTrend } from './headroom-trend.js';

/** What the policy looks at. Cells are of the pool (shared) or of one stream (private). */
export interface RungInput {
  nowMs: number;
  /** Index in the ladder; RUNG_NONE: the context is put away. */
  rung: number;
  /** The last plan would have liked so many; 0: no wish. */
  wantedCells: number;
  /** And so many sequences; 0: no wish. */
  wantedSequences: number;
  /** Cells of the longest sequence of a running request, or of the one that is admitted next. */
  longestCells: number;
  /** What sequences hold, cached ones included, each counted by itself: copies of it exist while the context moves. */
  usedCells: number;
  /** Those of them that running requests hold. */
  activeCells: number;
  runningRequests: number;
  /** Running requests are there, and none can go on. */
  isStalled: boolean;
  hasWork: boolean;
  headroomBytes: number;
  /** Of this process, and given back before a rung is lowered: it counts where pressure is judged, not where memory is taken. Left out: none. */
  reclaimableBytes?: number;
  /** 0 none, 1 warning, 2 critical. */
  pressureLevel: number;
}

export interface RungLimits {
  rungs: ReadonlyArray<{ sequences: number; cells: number; bytes: number }>;
  /** Bytes of one cell's keys and values. */
  cellBytes: number;
  /** The plan's margin. */
  marginBytes: number;
  /** Without work for so long, the context is put away; 0: never. */
  idleReleaseMs: number;
  /** Others' growth can end this process: its context lies in memory that all share. A card's memory stays with who has it. */
  isSharedMemory: boolean;
}

export interface RungMove {
  rung: number;
  reason: string;
  /** What copies of sequences may take while the context moves: they lie beside the old context, then beside the new one. */
  copyBytes: number;
  /** So long may the old context stand for others to be written to a file; 0: not at all. */
  spillMs: number;
  /** What of those files may stay in the system's cache. */
  cacheBytes: number;
}

type Move = Pick<RungMove, 'rung' | 'reason'>;

/** Pressure must last this long. Chosen: one reading may be a spike, and readings come several times a second. */
const PRESSURE_MS = 500;
/** Headroom is foreseen this far ahead. Chosen: a step on a slow machine ends, and a context moves, in about as much. */
const FORESIGHT_MS = 2_000;
/** Below this part of the margin, now or by the end of what runs, nothing is waited for. Chosen: a reading later it may be too late. */
const CRITICAL_MARGIN_SHARE = 0.25;
/** From a decision in need to the memory being back. Chosen: a step gives up between two operations, a context is freed at once. */
const RESCUE_MS = 300;
/** Between two moves in need. Chosen: by then readings show what the first one gave back. */
const CRITICAL_COOL_DOWN_MS = 500;
/** A rung must hold against the same fall for this long. Derived: COOL_DOWN_MS, when the next move is free to come. */
const RELIEF_MS = 3_000;
/** A step that ends sooner is not given up: what it computed is worth more. Chosen. */
const GIVE_UP_LEAST_MS = 150;
/** Between two moves that nobody waits for. Chosen: a move pauses requests. */
const COOL_DOWN_MS = 3_000;
/** After pressure the ladder is not climbed for so long. Chosen: less than the five seconds in which throughput must be back. */
const CALM_MS = 2_000;
/** Part of the margin that a climb must leave. Chosen: what the backend and the heaps take beyond the plan, for which a part of the margin is
 *  there, shows in the readings by then; more would keep a tight plan off its own top for good. Simulated from 440 to 1900 MiB: with 0.75
 *  requests failed at some limits, with 0.65 none did, and the peak was the same. */
const CLIMB_MARGIN_SHARE = 0.65;
/** A climb for which cached prefixes must be left behind waits until nothing has pressed or moved for so long. Chosen: a pressure that comes
 *  and goes must not cost them each time. */
const COSTLY_CALM_MS = 10_000;
/** A climb takes more than was asked for up to this much: the next one would find more to carry, and less room for it. Chosen: half a second
 *  of zeroing pages, by the rate of the last move, at most what a good machine does in it. Measured: a virtual machine that gets each page from
 *  its host does a tenth of that. */
const GENEROUS_GROWTH_BYTES = 1.5 * 2 ** 30;
const GENEROUS_GROWTH_MS = 500;
/** Before a move was seen. Chosen: two seconds on such a machine. */
const FIRST_GROWTH_BYTES = 2 ** 29;
/** What running requests have computed may be given up for at least so many times the cells. Chosen: they are short of them for longer. */
const GAIN_FOR_LOSS = 8;
/** Readings may be so old: what a climb took before is charged for so long, whether they show it yet or not. Chosen: four times the age of
 *  an idle server's reading. */
const READING_AGE_MS = 1_000;
/** Part of the margin that copies leave free, a context that comes back, and a climb without which nothing runs. Chosen: at the limits of small machines that keeps the working set
 *  below 97 % of them; and a server that was put away must not wait for more than it started with. */
const COPY_MARGIN_SHARE = 0.5;
/** From the decision until the old context is gone, where files are written. Measured: 0.3 to 0.7 s (make bench-pressure, part shrink). */
const MOVE_MS = 700;
/** Writing to a file delays a move by at most this. Chosen: nobody gets a token meanwhile; a slow solid-state disk takes
 *  half a gigabyte in it. */
const SPILL_MOST_MS = 2_000;

/**
 * When the context moves on its ladder: up when requests ask for cells and the headroom allows it, down under lasting pressure, off when
 * idle or when even the lowest rung is too much, on again with the next request that there is memory for. Pure: time comes in.
 */
export class RungPolicy {
  private readonly trend = new HeadroomTrend();
  private pressedSinceMs: number | null = null;
  private lastPressedMs = Number.NEGATIVE_INFINITY;
  private lastMoveMs = Number.NEGATIVE_INFINITY;
  private lastWorkMs: number;
  /** What climbs of the last READING_AGE_MS took. */
  private freshGrowthBytes = 0;
  /** What a climb may take unasked. */
  private generousBytes = FIRST_GROWTH_BYTES;

  constructor(
    private readonly limits: RungLimits,
    nowMs: number,
  ) {
    this.lastWorkMs = nowMs;
  }

  /** Whether a climb to a rung with more cells would be granted now. */
  canClimb(input: RungInput): boolean {
    const { rung } = input;
    const least = rung === RUNG_NONE || !this.hasShapes ? 1 : this.limits.rungs[rung].cells + 1;
    return this.climbTarget({ ...input, wantedCells: Math.max(least, input.wantedCells), wantedSequences: 0 }) !== null;
  }

  /** The same for a rung with more sequences. */
  canSpread(input: RungInput): boolean {
    if (input.rung === RUNG_NONE || !this.hasShapes) return false;
    const least = this.limits.rungs[input.rung].sequences + 1;
    const wantedSequences = Math.max(least, input.wantedSequences);
    return this.climbTarget({ ...input, wantedCells: 0, wantedSequences }) !== null;
  }

  /** Rungs differ in their number of sequences (stream-ladder.ts). */
  private get hasShapes(): boolean {
    const { rungs } = this.limits;
    return rungs.some(({ sequences }) => sequences !== rungs[0].sequences);
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
    const spillMs = this.spillMs(input, move.rung);
    const cacheBytes = this.cacheBytes(input, move.rung);
    this.freshGrowthBytes = this.unreadBytes(input.nowMs) + Math.max(this.growthBytes(input.rung, move.rung), 0);
    this.noteMove(input.nowMs);
    return { ...move, copyBytes, spillMs, cacheBytes };
  }

  /**
   * The rung to fall to at once, where headroom will be gone before the running step ends, `busyMs` from now: the step is given up, and what
   * stands in the context with it. The policy takes its word for a deed. null: no such need.
   */
  rescue(input: RungInput, busyMs: number): RungMove | null {
    this.noteReading(input);
    // Nothing can be reclaimed before the step is over.
    const isCritical = this.isCritical({ ...input, reclaimableBytes: 0 }, busyMs);
    if (input.rung === RUNG_NONE || busyMs < GIVE_UP_LEAST_MS || !isCritical) return null;
    if (!this.limits.isSharedMemory || input.nowMs - this.lastMoveMs < CRITICAL_COOL_DOWN_MS) return null;
    const move = this.down(input);
    this.freshGrowthBytes = 0;
    this.noteMove(input.nowMs);
    return { ...move, copyBytes: 0, spillMs: 0, cacheBytes: 0 };
  }

  /** A context was made in `ms`, what it carries included. */
  noteMade(rung: number, ms: number): void {
    if (rung === RUNG_NONE) return;
    const bytesPerMs = this.limits.rungs[rung].bytes / Math.max(ms, 1);
    this.generousBytes = Math.min(GENEROUS_GROWTH_BYTES, bytesPerMs * GENEROUS_GROWTH_MS);
  }

  /** Headroom was short at the last reading, or will be in a moment. */
  get isPressed(): boolean {
    return this.pressedSinceMs !== null;
  }

  /** Headroom that is left in a moment if it goes on falling as it does. */
  foreseenBytes(headroomBytes: number): number {
    return headroomBytes - this.trend.fallBytes(FORESIGHT_MS);
  }

  private noteMove(nowMs: number): void {
    this.lastMoveMs = nowMs;
    this.trend.reset();
  }

  private propose(input: RungInput): Move | null {
    if (input.hasWork) this.lastWorkMs = input.nowMs;
    this.noteReading(input);
    return this.comeBack(input) ?? this.release(input) ?? this.shrink(input) ?? this.climb(input);
  }

  private growthBytes(from: number, to: number): number {
    const bytesOf = (rung: number) => (rung === RUNG_NONE ? 0 : this.limits.rungs[rung].bytes);
    return bytesOf(to) - bytesOf(from);
  }

  private unreadBytes(nowMs: number): number {
    return nowMs - this.lastMoveMs < READING_AGE_MS ? this.freshGrowthBytes : 0;
  }

  /** What is left beside the larger of the two contexts: copies and files of one exist beside the other. null: none are made. */
  private besideBytes({ nowMs, rung, headroomBytes }: RungInput, target: number): number | null {
    if (rung === RUNG_NONE || target === RUNG_NONE) return null;
    return headroomBytes - Math.max(this.growthBytes(rung, target), 0) - this.unreadBytes(nowMs);
  }

  /** Copies hold shared cells each for itself. Beside who takes memory all the time they leave what will be gone in a moment. */
  private copyBytes(input: RungInput, target: number): number {
    const besideBytes = this.besideBytes(input, target);
    if (besideBytes === null) return 0;
    return Math.max(this.foreseenBytes(besideBytes) - this.limits.marginBytes * COPY_MARGIN_SHARE, 0);
  }

  /** Until what is left has fallen to where nothing is waited for. */
  private spillMs(input: RungInput, target: number): number {
    const besideBytes = this.besideBytes(input, target);
    if (besideBytes === null) return 0;
    const leftBytes = besideBytes - this.limits.marginBytes * CRITICAL_MARGIN_SHARE - this.trend.fallBytes(RESCUE_MS);
    const fallBytesPerMs = this.trend.fallBytes(1);
    if (leftBytes <= 0) return 0;
    return fallBytesPerMs > 0 ? Math.min(leftBytes / fallBytesPerMs, SPILL_MOST_MS) : SPILL_MOST_MS;
  }

  private cacheBytes(input: RungInput, target: number): number {
    const besideBytes = this.besideBytes(input, target);
    if (besideBytes === null) return 0;
    const leastBytes = this.limits.marginBytes * CRITICAL_MARGIN_SHARE;
    return Math.max(besideBytes - this.trend.fallBytes(MOVE_MS) - leastBytes, 0);
  }

  private noteReading(input: RungInput): void {
    const { nowMs, pressureLevel } = input;
    const roomBytes = roomBytesOf(input);
    this.trend.note(nowMs, roomBytes);
    const isPressed = pressureLevel >= 2 || this.foreseenBytes(roomBytes) < this.limits.marginBytes / 2;
    if (isPressed) {
      this.pressedSinceMs ??= nowMs;
      this.lastPressedMs = nowMs;
    } else {
      this.pressedSinceMs = null;
    }
  }

  /** Half of the margin is there still, and will not be. */
  private isForeseen(input: RungInput): boolean {
    const leastBytes = this.limits.marginBytes / 2;
    const roomBytes = roomBytesOf(input);
    return roomBytes >= leastBytes && this.foreseenBytes(roomBytes) < leastBytes;
  }

  private isCritical(input: RungInput, busyMs: number): boolean {
    const leftBytes = roomBytesOf(input) - this.trend.fallBytes(busyMs + RESCUE_MS);
    return leftBytes < this.limits.marginBytes * CRITICAL_MARGIN_SHARE;
  }

  /** Only into memory that is there: a context that fails to come back costs the process. */
  private comeBack({ nowMs, rung, hasWork, wantedCells, headroomBytes }: RungInput): Move | null {
    if (rung !== RUNG_NONE || !hasWork || nowMs - this.lastPressedMs < CALM_MS) return null;
    const freeBytes = headroomBytes - this.limits.marginBytes * COPY_MARGIN_SHARE;
    for (let target = this.smallestFor(wantedCells); target >= 0; target--)
      if (this.limits.rungs[target].bytes <= freeBytes) return { rung: target, reason: 'a request came' };
    return null;
  }

  private release({ nowMs, rung, hasWork }: RungInput): Move | null {
    const { idleReleaseMs } = this.limits;
    if (rung === RUNG_NONE || hasWork || idleReleaseMs === 0 || nowMs - this.lastWorkMs < idleReleaseMs) return null;
    return { rung: RUNG_NONE, reason: `no request for ${Math.round(idleReleaseMs / 1000)} s` };
  }

  private shrink(input: RungInput): Move | null {
    const { nowMs, rung } = input;
    if (rung === RUNG_NONE || this.pressedSinceMs === null) return null;
    // A fall that is foreseen has lasted for as long as it took to see it.
    const hasLasted = nowMs - this.pressedSinceMs >= PRESSURE_MS || this.isForeseen(input);
    const sinceMoveMs = nowMs - this.lastMoveMs;
    if (this.isCritical(input, 0)) {
      if (sinceMoveMs < CRITICAL_COOL_DOWN_MS || (rung === 0 && !(hasLasted && this.limits.isSharedMemory)))
        return null;
      return this.down(input);
    }
    // A fall since the last move is not what that move did: waiting for the time between moves would be waiting for need.
    const restMs = this.isForeseen(input) ? CRITICAL_COOL_DOWN_MS : COOL_DOWN_MS;
    return rung > 0 && hasLasted && sinceMoveMs >= restMs ? this.down(input) : null;
  }

  /**
   * The highest rung below that gives back enough; below the lowest, nothing at all. Running requests that do not fit there are computed
   * again: they would be lost with everything else if the kernel had to choose.
   */
  private down({ rung, headroomBytes }: RungInput): Move {
    const reason = `memory pressure: ${headroomBytes} bytes of headroom`;
    const neededBytes = this.limits.marginBytes + this.trend.fallBytes(RELIEF_MS);
    for (let target = rung - 1; target > 0; target--)
      if (headroomBytes - this.growthBytes(rung, target) >= neededBytes) return { rung: target, reason };
    return { rung: rung > 0 ? 0 : RUNG_NONE, reason };
  }

  private climb(input: RungInput): Move | null {
    const { wantedCells, wantedSequences } = input;
    if (wantedCells === 0 && wantedSequences === 0) return null;
    const target = this.climbTarget(input);
    const wish = wantedCells > 0 ? `${wantedCells} cells` : `${wantedSequences} streams`;
    return target === null ? null : { rung: target, reason: `requests ask for ${wish}` };
  }

  /** The highest rung that fits of those that grant the wish and those that are had in no time; always higher than this one. */
  private climbTarget(input: RungInput): number | null {
    const { nowMs, rung, wantedCells } = input;
    const { rungs } = this.limits;
    if (rung === RUNG_NONE || nowMs - this.lastPressedMs < CALM_MS) return null;
    if (this.hasShapes) return this.shapeTarget(input);
    if (rung >= rungs.length - 1) return null;
    const quick = rungs.findLastIndex((_, target) => this.growthBytes(rung, target) <= this.generousBytes);
    const highest = Math.max(this.smallestFor(wantedCells), quick, rung + 1);
    for (let target = highest; target > rung; target--) if (this.fits(input, target)) return target;
    return null;
  }

  /** Of streams: the shortest that are long enough for who asks, else as many as are asked for, or all there are where they are had in no time. */
  private shapeTarget(input: RungInput): number | null {
    const { nowMs, rung, wantedCells, wantedSequences, longestCells } = input;
    const { rungs } = this.limits;
    const { cells, sequences, bytes } = rungs[rung];
    if (wantedCells > cells) {
      const target = rungs.findIndex((other, index) => index > rung && other.cells >= wantedCells);
      return target > rung && this.fits(input, target) ? target : null;
    }
    if (wantedSequences <= sequences) return null;
    const more = rungs.flatMap((other, index) =>
      other.sequences > sequences && other.cells >= longestCells ? [index] : [],
    );
    // Longer streams were asked for not long ago: they are not given up at once.
    const isBack = more.some((target) => rungs[target].bytes <= bytes);
    if (isBack && nowMs - this.lastMoveMs < COSTLY_CALM_MS) return null;
    const enough = more.filter((target) => rungs[target].sequences >= wantedSequences).map((t) => rungs[t].bytes);
    const mostBytes = Math.max(Math.min(...enough), bytes + this.generousBytes);
    const byCount = more
      .filter((target) => rungs[target].bytes <= mostBytes)
      .sort((a, b) => rungs[b].sequences - rungs[a].sequences || a - b);
    return byCount.find((target) => this.fits(input, target)) ?? null;
  }

  private fits(input: RungInput, target: number): boolean {
    const { nowMs, rung, usedCells, activeCells, isStalled, headroomBytes } = input;
    const { marginBytes, cellBytes } = this.limits;
    // As headroom will be: what others are about to take is not there for a climb.
    const leftBytes = this.foreseenBytes(headroomBytes) - this.unreadBytes(nowMs) - this.growthBytes(rung, target);
    const isNeeded = input.wantedCells > 0 && activeCells === 0;
    if (leftBytes < marginBytes * (isNeeded ? COPY_MARGIN_SHARE : CLIMB_MARGIN_SHARE)) return false;
    if (isStalled) return true;
    // Who runs is not sent away for who wants longer streams.
    if (this.hasShapes && input.runningRequests > this.limits.rungs[target].sequences) return false;
    const copyBytes = this.copyBytes(input, target);
    // Who waits for cells waits for running requests to end: what they have computed is worth more than the wait.
    const isLost = activeCells * cellBytes > copyBytes;
    if (isLost && activeCells * GAIN_FOR_LOSS > this.totalCells(target) - this.totalCells(rung)) return false;
    const isCalm = nowMs - Math.max(this.lastPressedMs, this.lastMoveMs) >= COSTLY_CALM_MS;
    return isNeeded || isCalm || usedCells * cellBytes <= copyBytes;
  }

  /** Of all streams, where they differ in number; else as the wishes count them. */
  private totalCells(rung: number): number {
    const { cells, sequences } = this.limits.rungs[rung];
    return this.hasShapes ? cells * sequences : cells;
  }

  private smallestFor(cells: number): number {
    const index = this.limits.rungs.findIndex((rung) => rung.cells >= cells);
    return index < 0 ? this.limits.rungs.length - 1 : index;
  }
}

function roomBytesOf({ headroomBytes, reclaimableBytes = 0 }: RungInput): number {
  return headroomBytes + reclaimableBytes;
}
