/**
 * When the plan in force shrinks, grows, is put away and comes back. A pure state machine: time and readings in, one action out.
 *
 * ```
 *            pressure                pressure               pressure
 *   normal ───────────▶ no-idle-kv ───────────▶ small-chunk ───────────▶ shrunk ⟲ (again, after a cool-down)
 *     │  ◀─────────── calm ◀──────────── calm ◀──────────────── calm ──┘
 *     │ idle
 *     ▼            longer idle
 *   released ─────────────────▶ unloaded          a request: back to normal, from either
 * ```
 */
export type Strain = 'normal' | 'no-idle-kv' | 'small-chunk' | 'shrunk';
export type Residence = 'ready' | 'released' | 'unloaded';

export interface ElasticState {
  strain: Strain;
  residence: Residence;
  /** Start of the present stretch without pressure; null: under pressure, or neither. */
  calmSinceMs: number | null;
  /** Last request that ran or waited. */
  lastBusyMs: number;
  lastStrainMs: number;
  lastReplanMs: number;
}

export interface ElasticInput {
  nowMs: number;
  headroomBytes: number;
  /** 0 none, 1 warning, 2 critical. */
  pressureLevel: number;
  runningRequests: number;
  waitingRequests: number;
  /** A request has waited for KV cells: the pool is too small for the demand. */
  waitingForCells: boolean;
  /** The plan that present readings would give has a larger pool than the one in force. */
  largerPlanFits: boolean;
}

export interface ElasticLimits {
  /** Pressure below this headroom. */
  lowBytes: number;
  /** Calm above this; between the two nothing changes. */
  highBytes: number;
  /** 0: never. */
  idleReleaseMs: number;
  idleUnloadMs: number;
}

export type ElasticAction =
  | { action: 'none' }
  | { action: 'drop-idle-kv' | 'lower-chunk' | 'restore-chunk' | 'shrink' | 'grow'; reason: string }
  | { action: 'release' | 'unload' | 'restore' | 'reload'; reason: string };

/** Pressure must last this long before the next measure; critical pressure does not wait. Chosen: some steps of a slow model. */
export const STRAIN_STEP_MS = 250;
/** Calm must last this long before a measure is taken back. Chosen: a browser tab opens in less, and 5 s is the promise. */
export const CALM_MS = 2000;
/** Between two re-plans, whatever happens. Chosen: a re-plan may pause requests for half a second. */
export const SHRINK_COOL_DOWN_MS = 1000;
export const GROW_COOL_DOWN_MS = 4000;

const STRAINS: readonly Strain[] = ['normal', 'no-idle-kv', 'small-chunk', 'shrunk'];

export function initialElasticState(nowMs: number): ElasticState {
  const never = Number.NEGATIVE_INFINITY;
  return {
    strain: 'normal',
    residence: 'ready',
    calmSinceMs: null,
    lastBusyMs: nowMs,
    lastStrainMs: never,
    lastReplanMs: never,
  };
}

/** The next state and the one thing to do now. The caller does it before the next step. */
export function elasticStep(
  state: ElasticState,
  input: ElasticInput,
  limits: ElasticLimits,
): { state: ElasticState; action: ElasticAction } {
  const next = { ...state };
  const busy = input.runningRequests + input.waitingRequests > 0;
  if (busy) next.lastBusyMs = input.nowMs;
  const isPressed = input.pressureLevel > 0 || input.headroomBytes < limits.lowBytes;
  const isCalm = input.pressureLevel === 0 && input.headroomBytes > limits.highBytes;
  if (!isCalm) next.calmSinceMs = null;
  else next.calmSinceMs ??= input.nowMs;
  if (state.residence !== 'ready') return { action: comeBack(next, input, limits, busy), state: next };
  const action = busy ? NONE : putAway(next, input, limits);
  if (action !== NONE) return { action, state: next };
  if (isPressed) return { action: strain(next, input), state: next };
  return { action: relax(next, input), state: next };
}

const NONE: ElasticAction = { action: 'none' };

function comeBack(next: ElasticState, input: ElasticInput, limits: ElasticLimits, busy: boolean): ElasticAction {
  if (busy) {
    const action = next.residence === 'unloaded' ? 'reload' : 'restore';
    next.residence = 'ready';
    next.strain = 'normal';
    next.lastReplanMs = input.nowMs;
    return { action, reason: 'a request came' };
  }
  if (next.residence === 'released' && isIdleFor(next, input, limits.idleUnloadMs)) {
    next.residence = 'unloaded';
    return { action: 'unload', reason: `no request for ${limits.idleUnloadMs} ms` };
  }
  return NONE;
}

function putAway(next: ElasticState, input: ElasticInput, limits: ElasticLimits): ElasticAction {
  if (!isIdleFor(next, input, limits.idleReleaseMs)) return NONE;
  next.residence = 'released';
  next.strain = 'normal';
  return { action: 'release', reason: `no request for ${limits.idleReleaseMs} ms` };
}

function isIdleFor(state: ElasticState, input: ElasticInput, ms: number): boolean {
  return ms > 0 && input.nowMs - state.lastBusyMs >= ms;
}

/** One measure more, the cheapest that is left: idle prefixes, then the chunk, then the pool itself. */
function strain(next: ElasticState, input: ElasticInput): ElasticAction {
  const isCritical = input.pressureLevel >= 2;
  if (!isCritical && input.nowMs - next.lastStrainMs < STRAIN_STEP_MS) return NONE;
  const rank = STRAINS.indexOf(next.strain);
  const target = isCritical ? 'shrunk' : STRAINS[Math.min(rank + 1, STRAINS.length - 1)];
  const reason = isCritical ? 'critical memory pressure' : `headroom ${input.headroomBytes} bytes`;
  if (target === 'shrunk') {
    if (input.nowMs - next.lastReplanMs < SHRINK_COOL_DOWN_MS) return NONE;
    next.lastReplanMs = input.nowMs;
  }
  next.strain = target;
  next.lastStrainMs = input.nowMs;
  if (target === 'shrunk') return { action: 'shrink', reason };
  return { action: target === 'small-chunk' ? 'lower-chunk' : 'drop-idle-kv', reason };
}

/** After lasting calm, one measure back; with none left, growth where requests wait for cells. */
function relax(next: ElasticState, input: ElasticInput): ElasticAction {
  if (next.calmSinceMs === null || input.nowMs - next.calmSinceMs < CALM_MS) return NONE;
  const mayReplan = input.nowMs - next.lastReplanMs >= GROW_COOL_DOWN_MS;
  switch (next.strain) {
    case 'shrunk':
      if (!mayReplan || !input.largerPlanFits) return NONE;
      next.strain = 'normal';
      return grow(next, input, 'pressure is over');
    case 'small-chunk':
      next.strain = 'normal';
      return { action: 'restore-chunk', reason: 'pressure is over' };
    case 'no-idle-kv':
      next.strain = 'normal';
      return NONE;
    case 'normal':
      return mayReplan && input.waitingForCells ? grow(next, input, 'requests wait for KV') : NONE;
  }
}

function grow(next: ElasticState, input: ElasticInput, reason: string): ElasticAction {
  if (!input.largerPlanFits) return NONE;
  next.lastReplanMs = input.nowMs;
  return { action: 'grow', reason };
}
