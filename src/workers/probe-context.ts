import type { Engine } from '../shared/engine.js';
import type { ContextRung } from '../shared/memory/context-ladder.js';
import { type DeviceMemory, headroomOf } from '../shared/memory/headroom.js';
import type { Plan } from '../shared/memory/plan-types.js';
import { refineStanding } from '../shared/memory/probe-standing.js';
import type { MemoryWatch } from './memory-watch.js';
import { usedBytes } from './memory-watch.js';
import { runProbe } from './probe.js';

/** What the probe found, for the log, the limits and /v1/load-line. */
export interface ProbeReport {
  ran: boolean;
  refused: boolean;
  /** Prompt tokens of a step that the rest of the plan can run with; 0: as planned. */
  chunkTokens: number;
  runtimeExtraBytes: number;
  ms: number;
  sentence: string;
}

export const NO_PROBE: ProbeReport = {
  ran: false,
  refused: false,
  chunkTokens: 0,
  runtimeExtraBytes: 0,
  ms: 0,
  sentence: 'skipped: what the backend takes beyond the plan is not known, and the first large prompt is the probe',
};

/**
 * Runs the largest planned step on the context that stands and compares what was taken with the plan. Refines the chunk down, never up;
 * a failed or meaningless measurement keeps the planned caps and says so.
 */
export function probeContext(
  engine: Engine,
  watch: MemoryWatch,
  memory: DeviceMemory,
  plan: Plan,
  rung: ContextRung,
  epoch: number,
  threads: number,
): ProbeReport {
  const startMs = performance.now();
  const run = runProbe(engine, rung.spec, epoch, plan.chunkTokens, threads);
  const report = { ran: true, refused: false, chunkTokens: 0, runtimeExtraBytes: 0, ms: performance.now() - startMs };
  if (run.failure !== null) {
    // A failed step may have broken the context, or left something in it.
    engine.createContext(rung.spec);
    return { ...report, sentence: `the probe's step failed (${run.failure}): planned caps are kept` };
  }
  const readings = engine.readings();
  watch.probed(readings);
  const result = refineStanding(
    {
      plannedBytes: rung.bytes,
      leastFreeBytes: plan.arithmetic.marginBytes / 2,
      computeBytes: plan.cost.computeBytes,
    },
    {
      usedBeforeContextBytes: watch.baselineBytes + watch.weightsTakenBytes,
      usedPeakBytes: usedBytes(readings, memory),
      headroomBytes: headroomOf(readings, memory).bytes,
      chunkTokens: plan.chunkTokens,
    },
  );
  const extent = run.isExtrapolated
    ? `${run.chunkTokens} of ${plan.chunkTokens} tokens, the rest extrapolated`
    : `${run.chunkTokens} tokens`;
  return {
    ...report,
    refused: result.refused,
    chunkTokens: result.inconclusive ? 0 : result.chunkTokens,
    runtimeExtraBytes: result.runtimeExtraBytes,
    sentence: `${extent} and one token of each other sequence: ${result.sentence}`,
  };
}
