import { AnalyticCostModel } from '../memory/analytic-cost-model.js';
import { contextLadder } from '../memory/context-ladder.js';
import { AUTOMATIC_FLAGS } from '../memory/plan-profile.js';
import type { PlanFlags } from '../memory/plan-types.js';
import { planContext } from '../memory/planner.js';
import { streamLadder } from '../memory/stream-ladder.js';
import { SimulatedDevice } from './device.js';
import { LaggedReadings } from './lagged-readings.js';
import type { SimulatedMachine } from './machine.js';
import { type SimulatedModel, speedOn } from './models.js';
import { NOBODY_ELSE, type OthersUse } from './others-use.js';
import type { SimulationOutcome } from './result.js';
import { SimulatedForward } from './simulated-forward.js';
import { SimulatedOverlap } from './simulated-overlap.js';
import { Simulation } from './simulation.js';
import type { ChipName } from './speed.js';
import type { Workload } from './workload.js';

export interface SimulationInput {
  machine: SimulatedMachine;
  chip: ChipName;
  model: SimulatedModel;
  workload: Workload;
  /** Of load; after it the simulation goes on until every request is over. */
  seconds: number;
  /** What a user would set; the rest is automatic. */
  flags?: Partial<PlanFlags>;
  othersUse?: OthersUse;
  /** A reading is known this long after it was true. */
  readingLagMs?: number;
  maxWaitMs?: number;
  maxQueuedRequests?: number;
  /** 0: the context is never put away. */
  idleReleaseMs?: number;
  isOverlapped?: boolean;
}

/** The server's own defaults (config.ts). */
const MAX_WAIT_MS = 300_000;
const MAX_QUEUED_REQUESTS = 512;
/** After the load: the longest wait in the queue, and this for what runs. Chosen: far more than any answer takes. */
const DRAIN_MS = 3_600_000;
/** Moments that a simulation keeps. Chosen: a point for each pixel or two of a picture. */
const MOMENTS = 480;

/**
 * Runs a workload through the scheduler, the planner and the policies that serve, on a machine that is not here. Pure and repeatable.
 * @returns the planner's refusal where the model does not fit the machine.
 */
export function simulate(input: SimulationInput): SimulationOutcome {
  const { machine, model } = input;
  const flags: PlanFlags = { ...AUTOMATIC_FLAGS, ...input.flags };
  const device = new SimulatedDevice(machine, input.othersUse ?? NOBODY_ELSE);
  const costs = new AnalyticCostModel(model.shape, machine.memory, machine.engineThreads);
  const plan = planContext(
    {
      model: {
        trainContextTokens: model.shape.trainContextTokens,
        weightsBytes: model.shape.weightsBytes,
        canTrim: model.canTrim,
      },
      machine: {
        memory: machine.memory,
        readings: device.readings(0),
        uncountedWeightsBytes: model.shape.weightsBytes,
        threads: machine.engineThreads,
        promptThreads: machine.engineThreads,
      },
      flags,
    },
    costs,
  );
  if (plan.refused) return plan;
  device.set('weights', model.shape.weightsBytes, 0);
  const pools = contextLadder(plan, costs, machine.memory, false);
  const ladder = plan.asStreams ? streamLadder(pools, plan, costs, machine.memory) : pools;
  const overlap = new SimulatedOverlap({
    plan,
    ladder,
    canTrim: model.canTrim,
    prefixCache: flags.prefixCache,
    waitingMax: input.maxQueuedRequests ?? MAX_QUEUED_REQUESTS,
    idleReleaseMs: input.idleReleaseMs ?? 0,
    isSharedMemory: machine.memory !== 'discrete',
  });
  const forward = new SimulatedForward(device, ladder, costs, speedOn(input.chip, model), overlap.cellBytes);
  forward.create(0, 0);
  const maxWaitMs = input.maxWaitMs ?? MAX_WAIT_MS;
  const simulation = new Simulation({
    device,
    forward,
    overlap,
    readings: new LaggedReadings(input.readingLagMs ?? 0),
    workload: input.workload,
    seconds: input.seconds,
    drainMs: maxWaitMs + DRAIN_MS,
    momentEveryMs: (input.seconds * 1000) / MOMENTS,
    contextTokens: plan.contextTokens,
    maxWaitMs,
    prefixCache: flags.prefixCache,
    isOverlapped: input.isOverlapped ?? true,
  });
  return { plan, ladder, ...simulation.run() };
}
