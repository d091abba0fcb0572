import { GIB, HOST_GROWTH_BYTES, MARGIN_FRACTION, MAX_SHARE_MARGIN_BYTES, MIN_MARGIN_BYTES } from './constants.js';

/** Part of what is free above the margin that saved prefixes may take. Chosen: contexts that grow, and other programs, find as much left as the tier has. */
const HOST_TIER_SHARE = 0.5;
/** What an automatic tier takes at most. Chosen: some hundred long conversations; a machine is not filled with what may never be asked for. */
export const AUTO_HOST_TIER_BYTES = 8 * GIB;
/** What checkpoints take at most. Chosen: the states of some ten conversations of a model of 10 billion parameters; those of small models number hundreds. */
export const AUTO_CHECKPOINT_BYTES = GIB;

export interface HostTierState {
  /** The user's bound, or the automatic one; 0: no tier. */
  mostBytes: number;
  /** What it holds now: part of what the readings call used. */
  heldBytes: number;
  /** Of host memory, now or in a moment, whichever is less. */
  headroomBytes: number;
  /** Of host memory: RAM or the cgroup. */
  limitBytes: number;
  /** The plan's margin where it is of the same memory, else 0. */
  marginBytes: number;
  pressureLevel: number;
}

/**
 * Bytes that the host tier may hold. Nothing below the margin is its own, and half of what is above: with the tier at its budget, headroom is
 * the margin and as much again as the tier has. So it has given everything back before headroom is below the margin, and a rung is
 * lowered at half of that.
 */
export function hostTierBudgetBytes(state: HostTierState): number {
  if (state.mostBytes === 0 || state.pressureLevel >= 2) return 0;
  const shareBytes = Math.min(state.limitBytes * MARGIN_FRACTION, MAX_SHARE_MARGIN_BYTES);
  const ownMarginBytes = Math.max(shareBytes, MIN_MARGIN_BYTES) + HOST_GROWTH_BYTES;
  const freeBytes = state.headroomBytes + state.heldBytes - Math.max(ownMarginBytes, state.marginBytes);
  return Math.max(0, Math.floor(Math.min(freeBytes * HOST_TIER_SHARE, state.mostBytes)));
}
