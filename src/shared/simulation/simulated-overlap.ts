import { parseConfig } from '../config.js';
import { RUNG_NONE } from '../context-wire.js';
import { type ContextRung, cellBytesOf } from '../memory/context-ladder.js';
import type { Plan } from '../memory/plan-types.js';
import { type RungInput, RungPolicy } from '../memory/rung-policy.js';
import { startWordsMax } from '../pipeline-buffers.js';
import { CARRY_NOTHING, type SequenceMove } from '../scheduler/carry-over.js';
import type { SchedulerLimits } from '../scheduler/limits.js';
import { rungInputOf } from '../scheduler/rung-input.js';
import { Scheduler } from '../scheduler/scheduler.js';

/** As the overlap worker has it: how often the ladder is looked at when nobody waits for it. */
const RUNG_CHECK_MS = 100;
/** As the pipeline has it where nothing is said. */
const TARGET_ITL_MICROS = parseConfig().targetItlMs * 1000;

const NO_STREAMS = { sequences: 0, cells: 0 };

export interface OverlapInput {
  plan: Plan;
  ladder: readonly ContextRung[];
  canTrim: boolean;
  prefixCache: boolean;
  waitingMax: number;
  idleReleaseMs: number;
  isSharedMemory: boolean;
}

export interface LiveReadings {
  headroomBytes: number;
  pressureLevel: number;
}

export interface WantedMove {
  rung: number;
  keep: SequenceMove[];
  reason: string;
}

export type PlannedStep = { record: Int32Array } | { move: WantedMove } | null;

/** The overlap worker's place: the real scheduler and the real policy of the ladder, asked in the order in which the worker asks them. */
export class SimulatedOverlap {
  readonly scheduler: Scheduler;
  readonly cellBytes: number;
  rung = 0;
  epoch = 1;
  private readonly limits: SchedulerLimits;
  private readonly ladder: readonly ContextRung[];
  private readonly rungs: RungPolicy;
  private readonly runningCap: number;
  private decidedAtMs = 0;
  private rungCheckAtMs = 0;

  constructor(input: OverlapInput) {
    const { plan, ladder } = input;
    this.ladder = ladder;
    this.limits = limitsOf(input);
    this.cellBytes = cellBytesOf(plan);
    this.rungs = new RungPolicy(
      {
        rungs: ladder.map(({ spec, cells, bytes }) => ({ sequences: spec.sequences, cells, bytes })),
        cellBytes: this.cellBytes,
        marginBytes: plan.arithmetic.marginBytes,
        idleReleaseMs: input.idleReleaseMs,
        isSharedMemory: input.isSharedMemory,
      },
      0,
    );
    this.runningCap = plan.runningCap;
    this.scheduler = new Scheduler({ ...this.limits, ...this.standing(this.rung) }, this.epoch);
  }

  /** What is to be sent now: a record, or the context's move. null: nothing, until something happens. */
  plan(nowMs: number, live: LiveReadings): PlannedStep {
    const { scheduler } = this;
    const wish = this.wishedMove(nowMs, live);
    if (wish !== 'none') return wish === 'soon' ? null : { move: wish };
    if (!scheduler.schedule(nowMs)) {
      if (!scheduler.wantsContext || scheduler.inFlightCount > 0) return null;
      const move = this.wishedMove(nowMs, live);
      return typeof move === 'string' ? null : { move };
    }
    const record = new Int32Array(scheduler.plan.totalWords);
    scheduler.plan.encode(record, 0);
    scheduler.sent();
    return { record };
  }

  /** The context was moved. */
  moved(rung: number, carried: readonly number[], nowMs: number): void {
    this.rungs.noteMade(rung, nowMs - this.decidedAtMs);
    this.rung = rung;
    this.epoch++;
    if (rung === RUNG_NONE) this.scheduler.putAway();
    else this.scheduler.enterContext({ ...this.limits, ...this.standing(rung) }, this.epoch, carried);
  }

  private standing(rung: number): ReturnType<typeof shapeOf> & { runningCap: number } {
    const shape = shapeOf(this.ladder[rung]);
    return { ...shape, runningCap: Math.min(this.runningCap, shape.sequences) };
  }

  /** `soon`: a move is wanted, and waits for what is in flight. */
  private wishedMove(nowMs: number, live: LiveReadings): WantedMove | 'soon' | 'none' {
    const { scheduler } = this;
    const isUrgent = scheduler.wantsContext || (this.rung === RUNG_NONE && scheduler.activeCount > 0);
    if (!isUrgent && nowMs < this.rungCheckAtMs) return 'none';
    const input = this.rungInput(nowMs, live);
    scheduler.canGrow = this.rungs.canClimb(input);
    scheduler.canSpread = this.rungs.canSpread(input);
    scheduler.headroomBytes = input.headroomBytes;
    if (scheduler.inFlightCount > 0 && this.rungs.wantsMove(input)) return 'soon';
    this.rungCheckAtMs = nowMs + RUNG_CHECK_MS;
    if (scheduler.inFlightCount > 0) return 'none';
    const move = this.rungs.decide(input);
    if (move === null) return 'none';
    this.decidedAtMs = nowMs;
    const { sequences, cells } = move.rung === RUNG_NONE ? NO_STREAMS : shapeOf(this.ladder[move.rung]);
    // A machine that is not here has no disk: what its memory cannot copy is computed again.
    const budget = { ...CARRY_NOTHING, copyTokens: Math.floor(move.copyBytes / Math.max(1, this.cellBytes)) };
    const keep = this.rung === RUNG_NONE ? [] : scheduler.leaveContext(sequences, cells, budget).copied;
    return { rung: move.rung, keep, reason: move.reason };
  }

  private rungInput(nowMs: number, live: LiveReadings): RungInput {
    const { headroomBytes, pressureLevel } = live;
    return rungInputOf(this.scheduler, { nowMs, rung: this.rung, headroomBytes, pressureLevel });
  }
}

function shapeOf({ spec, cells }: ContextRung): { sequences: number; cells: number } {
  return { sequences: spec.sequences, cells };
}

function limitsOf({ plan, ladder, canTrim, prefixCache, waitingMax }: OverlapInput): SchedulerLimits {
  const sequencesMax = Math.max(...ladder.map(({ spec }) => spec.sequences));
  return {
    layout: ladder[0].spec.layout,
    sequences: ladder[0].spec.sequences,
    sequencesMax,
    hasShapes: ladder.some(({ spec }) => spec.sequences !== sequencesMax),
    runningCap: plan.runningCap,
    cells: ladder[0].cells,
    cellsMax: ladder[ladder.length - 1].cells,
    cellBytes: cellBytesOf(plan),
    // Nobody saves a prefix there.
    stateBytes: 0,
    contextTokens: plan.contextTokens,
    chunkTokens: plan.chunkTokens,
    batchTokens: ladder[0].spec.batchTokens,
    canTrim,
    prefixCache,
    // A machine that is not here has no text to repeat.
    speculates: false,
    waitingMax: waitingMax + 2 * plan.runningCap,
    startWords: startWordsMax(plan.contextTokens),
    tileTokens: 0,
    weightsBytes: 0,
    targetItlMicros: TARGET_ITL_MICROS,
  };
}
