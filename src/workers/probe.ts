import type { ContextSpec, Engine } from '../shared/engine.js';
import { runProbeStep } from './probe-step.js';

/** A first, small chunk tells how long the whole one would take. Chosen: quick even for a large model on a slow machine. */
const FIRST_CHUNK_TOKENS = 32;
/** A probe may take about so long; beyond it the rest is extrapolated. Chosen: a start should not feel it. */
const PROBE_MAX_MS = 400;
/** Step ids of the probe's records: before every record of the scheduler, which begins at 0. */
const FIRST_STEP_ID = -16;

export interface ProbeRun {
  /** Prompt tokens of the largest step that ran. */
  chunkTokens: number;
  /** The planned chunk was not run: it would have taken too long here. */
  isExtrapolated: boolean;
  stepMs: number;
  /** What the step said when it failed; null: it ran. */
  failure: string | null;
}

/**
 * Runs the largest planned step for real on the context that stands: a prompt chunk of one sequence and one token of each other, all
 * sampled. What the backend takes at run time (kernels, pools, library workspaces) is in the readings afterwards. Leaves the context empty.
 */
export function runProbe(
  engine: Engine,
  spec: ContextSpec,
  epoch: number,
  chunkTokens: number,
  /** Engine threads; 0: as the context was made. */
  threads: number,
): ProbeRun {
  const others = spec.sequences - 1;
  const largest = Math.min(chunkTokens, spec.cells - others - 1, spec.batchTokens - others);
  const first = Math.min(FIRST_CHUNK_TOKENS, largest);
  const run: ProbeRun = { chunkTokens: 0, isExtrapolated: false, stepMs: 0, failure: null };
  let stepId = FIRST_STEP_ID;
  for (const chunk of first === largest ? [first] : [first, largest]) {
    const expectedMs = (run.stepMs * chunk) / Math.max(1, run.chunkTokens);
    if (run.chunkTokens > 0 && expectedMs > PROBE_MAX_MS) {
      run.isExtrapolated = true;
      break;
    }
    const startMs = performance.now();
    run.failure = runProbeStep(engine, spec, epoch, [chunk, ...new Array<number>(others).fill(1)], stepId, threads);
    stepId += 2;
    run.stepMs = performance.now() - startMs;
    if (run.failure !== null) break;
    run.chunkTokens = chunk;
  }
  return run;
}
