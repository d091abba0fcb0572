import { AnalyticCostModel } from './analytic-cost-model.js';
import { type ModelShape, planModelOf } from './model-shape.js';
import type { Plan, PlanFlags, PlanInput, Refusal } from './plan-types.js';
import { planContext } from './planner.js';
import { type DeviceProfile, readingsOfProfile } from './profiles.js';

/** Engine threads of a profile: they take no memory, and the cores are not known. */
const PROFILE_THREADS = 4;

/** Flags of a user who asks for nothing. */
export const AUTOMATIC_FLAGS: PlanFlags = {
  contextTokens: 'auto',
  runningCap: 'auto',
  chunkTokens: 'auto',
  memFraction: 'auto',
  maxTotalTokens: 'auto',
  layout: 'auto',
  keyType: 'f16',
  valueType: 'f16',
  flashAttention: 'auto',
  prefixCache: true,
};

/** What this model would get on a machine that is not here: the planner that serves, with the analytic cost model. */
export function planForProfile(profile: DeviceProfile, shape: ModelShape, flags: PlanFlags): Plan | Refusal {
  return planContext(inputOfProfile(profile, shape, flags), costModelOfProfile(profile, shape));
}

export function costModelOfProfile(profile: DeviceProfile, shape: ModelShape): AnalyticCostModel {
  return new AnalyticCostModel(shape, profile.memory, PROFILE_THREADS);
}

export function inputOfProfile(profile: DeviceProfile, shape: ModelShape, flags: PlanFlags): PlanInput {
  return {
    model: planModelOf(shape),
    machine: {
      memory: profile.memory,
      readings: readingsOfProfile(profile),
      uncountedWeightsBytes: shape.weightsBytes,
      threads: PROFILE_THREADS,
      promptThreads: PROFILE_THREADS,
    },
    flags,
  };
}
