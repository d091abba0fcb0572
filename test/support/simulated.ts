import type { Test } from 'tap';
import { isRefusal, type SimulationInput, type SimulationResult, simulate } from '../../src/shared/simulation/index.js';

/** Share of the limit that a plan may take, at most: what the working set must stay under. */
const LINE_SHARE = 0.97;

/** Simulates a load on a machine that the model fits. @throws Error with the planner's words when it does not. */
export function runOn(input: SimulationInput): SimulationResult {
  const outcome = simulate(input);
  if (isRefusal(outcome)) throw new Error(`refused: ${outcome.sentence}`);
  return outcome;
}

/** No crash, everything under the line, everybody answered. */
export function mustFit(t: Test, result: SimulationResult): void {
  t.equal(result.crash, null, 'no crash');
  t.ok(
    result.peakUsedBytes <= result.limitBytes * LINE_SHARE,
    `peak is ${((result.peakUsedBytes / result.limitBytes) * 100).toFixed(1)} % of the limit`,
  );
  t.equal(result.open, 0, 'every request is over');
}
