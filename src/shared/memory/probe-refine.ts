import {
  PREFILL_SAFETY_FRACTION,
  PROBE_CHUNK_TOKENS,
  PROBE_FLOOR_TOKENS,
  PROBE_MIN_TRANSIENT_BYTES,
  SPARE_CACHES,
} from './constants.js';
import { safeChunkTokens } from './safe-chunk.js';

export interface ProbeMeasurement {
  /** Headroom with the running set held and nothing in flight. */
  headroomBytes: number;
  baselineUsedBytes: number;
  peakUsedBytes: number;
  /** Prompt tokens and context of the probe's step. */
  chunkTokens: number;
  contextTokens: number;
  /** Caches (or sequences) that were there during the step. */
  heldCaches: number;
}

export interface ProbePlan {
  chunkTokens: number;
  contextTokens: number;
  runningCap: number;
  /** Bytes of a prompt token for each context token, as planned. */
  bytesPerTokenContext: number;
  /** Caches beside the running set's own. */
  spareCaches: number;
}

export interface ProbeResult {
  refused: boolean;
  /** Why, or what the probe changed. */
  sentence: string;
  /** The transient was too small to be a measurement: the plan is kept. */
  inconclusive: boolean;
  targetCaches: number;
  measuredBytesPerTokenContext: number | null;
  safeChunkTokens: number | null;
  headroomBytes: number;
  chunkTokens: number;
  bytesPerTokenContext: number;
}

export const PROBE_DEFAULTS = { chunkTokens: PROBE_CHUNK_TOKENS, spareCaches: SPARE_CACHES } as const;

/** Refines the planned chunk by what a real step took: down, never up. A measurement without meaning changes nothing. */
export function refineByProbe(plan: ProbePlan, probe: ProbeMeasurement): ProbeResult {
  const targetCaches = plan.runningCap + plan.spareCaches;
  const transientBytes = probe.peakUsedBytes - probe.baselineUsedBytes;
  const result: ProbeResult = {
    refused: false,
    sentence: '',
    inconclusive: false,
    targetCaches,
    measuredBytesPerTokenContext: null,
    safeChunkTokens: null,
    headroomBytes: probe.headroomBytes,
    chunkTokens: plan.chunkTokens,
    bytesPerTokenContext: plan.bytesPerTokenContext,
  };
  if (transientBytes < PROBE_MIN_TRANSIENT_BYTES) {
    result.inconclusive = true;
    result.sentence = `the probe's step changed the reading by ${transientBytes} bytes only: planned caps are kept`;
  } else {
    measure(plan, probe, transientBytes, result);
  }
  if (probe.heldCaches < targetCaches) {
    result.refused = true;
    result.sentence = `only ${probe.heldCaches} of ${targetCaches} caches could be held`;
  }
  return result;
}

function measure(plan: ProbePlan, probe: ProbeMeasurement, transientBytes: number, result: ProbeResult): void {
  const measured = Math.ceil(transientBytes / (probe.chunkTokens * probe.contextTokens));
  // The larger of plan and measurement decides what is safe: a lucky small step must not raise the line.
  const cost = Math.max(measured, plan.bytesPerTokenContext);
  const safe = safeChunkTokens(probe.headroomBytes, cost, plan.contextTokens, PREFILL_SAFETY_FRACTION);
  result.measuredBytesPerTokenContext = measured;
  result.safeChunkTokens = safe;
  result.bytesPerTokenContext = measured;
  result.chunkTokens = Math.min(Math.max(safe, PROBE_FLOOR_TOKENS), plan.contextTokens, plan.chunkTokens);
  result.sentence = `measured ${measured} bytes per token and context token; chunk ${plan.chunkTokens} → ${result.chunkTokens}`;
  if (safe < PROBE_FLOOR_TOKENS) {
    result.refused = true;
    result.sentence = `only ${safe} prompt tokens would be safe, fewer than ${PROBE_FLOOR_TOKENS}`;
  }
}
