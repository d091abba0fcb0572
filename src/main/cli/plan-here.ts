/** The plan of this machine: the engine that would serve, asked the way serving asks it. */
import os from 'node:os';
import type { Config } from '../../shared/config.js';
import { type DeviceInfo, type Engine, EngineError, type Readings } from '../../shared/engine.js';
import { AnalyticCostModel } from '../../shared/memory/analytic-cost-model.js';
import type { CostModel } from '../../shared/memory/cost-model.js';
import { ExactCostModel } from '../../shared/memory/exact-cost-model.js';
import { type DeviceMemory, type HeadroomSource, hostHeadroomOf } from '../../shared/memory/headroom.js';
import { planUnderLine } from '../../shared/memory/lowered-line.js';
import { planModelOf } from '../../shared/memory/model-shape.js';
import { bytesText } from '../../shared/memory/plan-text.js';
import type { PlanInput } from '../../shared/memory/plan-types.js';
import { whatWouldChange } from '../../shared/memory/what-changes.js';
import { asServing, SERVER_BYTES } from '../../workers/refuse-before-loading.js';
import { leastContext, memoryOf, uncountedWeights } from '../../workers/start-forward.js';
import { planFlags, planThreads } from '../plan-settings.js';
import type { PlanModelFile } from './plan-model.js';
import type { PlannedEntry } from './plan-table.js';

const LIMIT_SOURCE: Record<HeadroomSource, string> = {
  device: 'the limit is what the device reports',
  system: 'the limit is the RAM of this machine',
  cgroup: "the limit is the cgroup's",
};

export interface PlanHere {
  config: Config;
  model: PlanModelFile;
  /** Names as the engine has them; empty: those it takes by itself. */
  devices: string[];
  /** Where the remembered line is, as a share of the limit. */
  lineFraction: number;
}

/** What the engine says of this machine. */
export interface MachineHere {
  devices: DeviceInfo[];
  readings: Readings;
}

/**
 * What serving this model here and now would get. The weights are loaded, so that the readings are those of a start, and freed again;
 * no context is made. Weights that cannot fit are not loaded: the plan is then made from the header, and says so.
 * @throws EngineError when the model cannot be loaded for another reason.
 */
export function planHere(engine: Engine, asked: PlanHere): PlannedEntry {
  const { model, devices } = asked;
  const machine = { devices: engine.devices(), readings: engine.readings() };
  const memory = memoryOf(machine.devices, devices);
  if (model.path === null) return planFromHeader(machine, asked, `${model.name} is not downloaded`);
  const estimate = planFromHeader(machine, asked, 'the weights do not fit, so they were not loaded');
  const inRam = memory === 'discrete' ? hostHeadroomOf(machine.readings).bytes : 0;
  // Loading weights that leave nothing for the margin is what ends processes. Beside a discrete GPU some of them may lie in RAM.
  if (estimate.result.arithmetic.budgetBytes + inRam <= 0) return estimate;
  try {
    return planLoaded(engine, asked, memory, model.path);
  } catch (error) {
    // A header that says it fits does not outweigh a device that has just refused.
    const isShort = error instanceof EngineError && error.code === 'out_of_memory' && estimate.result.refused;
    if (!isShort) throw error;
    return estimate;
  }
}

function planLoaded(engine: Engine, asked: PlanHere, memory: DeviceMemory, path: string): PlannedEntry {
  const useMmap = true;
  const { config, devices } = asked;
  const loaded = engine.loadModel({ path, gpuLayers: config.gpuLayers, devices, useMmap, useMlock: false });
  try {
    const threads = threadsOf(config);
    // Before the readings: a first measurement takes memory of its own.
    const uncountedWeightsBytes = uncountedWeights(engine.measure(leastContext(threads)), memory, useMmap);
    const costs = new ExactCostModel((spec) => engine.measure(spec), memory, os.availableParallelism(), loaded);
    const model = {
      trainContextTokens: loaded.trainContextTokens,
      weightsBytes: loaded.sizeBytes,
      canTrim: loaded.canTrim,
    };
    return planned(asked, costs, {
      model,
      machine: {
        memory,
        readings: asServing(engine.readings()),
        uncountedWeightsBytes,
        ...threads,
      },
      flags: planFlags(config),
    });
  } finally {
    engine.freeModel();
  }
}

/** The same from the header alone, for a machine in this state. `why`: what kept the weights from being loaded. */
export function planFromHeader(machine: MachineHere, asked: PlanHere, why: string): PlannedEntry {
  const { config, model, devices } = asked;
  const memory = memoryOf(machine.devices, devices);
  const { shape } = model;
  const costs = new AnalyticCostModel(shape, memory, os.availableParallelism());
  const entry = planned(asked, costs, {
    model: planModelOf(shape),
    machine: {
      memory,
      readings: asServing(machine.readings),
      uncountedWeightsBytes: shape.weightsBytes,
      ...threadsOf(config),
    },
    flags: planFlags(config),
  });
  return { ...entry, notes: [`estimated from the header of the file: ${why}`, ...(entry.notes ?? [])] };
}

function threadsOf(config: Config) {
  const threads = planThreads(config);
  return { threads, promptThreads: threads };
}

function planned(
  { model, devices, lineFraction: remembered }: PlanHere,
  costs: CostModel,
  input: PlanInput,
): PlannedEntry {
  const { plan: result, lineFraction } = planUnderLine(input, costs, remembered);
  const notes =
    remembered < 1 ? [`planned under a lowered line: ${Math.round(lineFraction * 1000) / 10} % of the limit`] : [];
  const { limit, headroom } = result.arithmetic;
  const room = headroom.terms.map((term) => `${bytesText(term.bytes)} by ${term.from}`).join(', ');
  return {
    device: devices.length > 0 ? devices.join('+') : 'this',
    model: model.name,
    result,
    changes: result.refused ? [] : whatWouldChange({ ...input, lineFraction }, costs, result),
    limitSource: `${LIMIT_SOURCE[limit.source]}; room beside the server's own ${bytesText(SERVER_BYTES)}: ${room}`,
    notes,
  };
}
