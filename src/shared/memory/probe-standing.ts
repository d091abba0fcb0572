import { PROBE_FLOOR_TOKENS } from './constants.js';

/** What the probe of a standing engine saw: the context was made, its pages touched, its largest step run. Bytes. */
export interface StandingProbe {
  usedBeforeContextBytes: number;
  /** Highest use while the step ran. */
  usedPeakBytes: number;
  /** Headroom after it, with everything in place. */
  headroomBytes: number;
  chunkTokens: number;
}

export interface StandingPlan {
  /** KV and compute bytes of the plan. */
  plannedBytes: number;
  /** Must stay free after everything: half the plan's margin, the rest may be used up by what the probe found. */
  leastFreeBytes: number;
  computeBytes: number;
}

export interface StandingProbeResult {
  refused: boolean;
  inconclusive: boolean;
  sentence: string;
  /** Bytes that the step took beyond the plan. */
  runtimeExtraBytes: number;
  /** Chunk that the rest of the plan can run with. */
  chunkTokens: number;
}

/** Compares the plan with what was really taken. Refines the chunk down where too little is left; never up. */
export function refineStanding(plan: StandingPlan, probe: StandingProbe): StandingProbeResult {
  const takenBytes = probe.usedPeakBytes - probe.usedBeforeContextBytes;
  const result = { refused: false, inconclusive: false, sentence: '', chunkTokens: probe.chunkTokens };
  if (takenBytes <= 0) {
    const sentence = 'the probe saw no memory taken: the reading does not show it, planned caps are kept';
    return { ...result, inconclusive: true, sentence, runtimeExtraBytes: 0 };
  }
  const runtimeExtraBytes = Math.max(takenBytes - plan.plannedBytes, 0);
  const shortBytes = plan.leastFreeBytes - probe.headroomBytes;
  if (shortBytes <= 0) {
    return { ...result, runtimeExtraBytes, sentence: `the step took ${runtimeExtraBytes} bytes beyond the plan` };
  }
  // Compute memory is linear in the chunk, so giving up a share of the chunk gives back that share of it.
  const share = Math.max(plan.computeBytes - shortBytes, 0) / Math.max(plan.computeBytes, 1);
  const chunkTokens = Math.floor((probe.chunkTokens * share) / PROBE_FLOOR_TOKENS) * PROBE_FLOOR_TOKENS;
  if (chunkTokens < PROBE_FLOOR_TOKENS) {
    const sentence = `${shortBytes} bytes too few are left after the largest step, and no smaller chunk gives them back`;
    return { ...result, refused: true, runtimeExtraBytes, sentence };
  }
  return { ...result, runtimeExtraBytes, chunkTokens, sentence: `chunk ${probe.chunkTokens} → ${chunkTokens}` };
}
