/**
 * What cannot be loaded is refused before it is tried: in a small memory group the kernel ends a process whose weights do not fit, and
 * nobody gets to read why. Only a lower bound decides here, so nothing is refused that the plan after loading would take; that plan is the
 * exact one, and has the last word on everything else.
 */
import os from 'node:os';
import type { Readings } from '../shared/engine.js';
import { AnalyticCostModel } from '../shared/memory/analytic-cost-model.js';
import { CELL_PADDING_TOKENS, MIB, MIN_CONTEXT_TOKENS } from '../shared/memory/constants.js';
import { type DeviceMemory, headroomOf, hostHeadroomOf, limitOf } from '../shared/memory/headroom.js';
import { paddedCells } from '../shared/memory/kv-shape.js';
import { type ModelShape, planModelOf, shapeOfHeader } from '../shared/memory/model-shape.js';
import { bytesText } from '../shared/memory/plan-text.js';
import type { PlanFlags, Refusal } from '../shared/memory/plan-types.js';
import { planContext } from '../shared/memory/planner.js';
import { filesBytes, modelParts, readModelHeader } from './model-file.js';

/**
 * What a server has beyond a process that only plans: HTTP, worker threads, its supervisor. Measured inside control groups of 400 and
 * 700 MiB: 33 to 42 MiB; without the supervisor 25 to 28.
 */
export const SERVER_BYTES = 40 * MIB;
/** Headers are read where the files are at least this share of what is free: reading one takes 10 to 30 ms of a start. Chosen. */
const CLOSE_SHARE = 0.5;

export interface LoadQuestion {
  path: string;
  /** −1: all. */
  gpuLayers: number;
  memory: DeviceMemory;
  /** Before loading. */
  readings: Readings;
  flags: PlanFlags;
  threads: number;
  promptThreads: number;
}

/** The refusal of a model that cannot be loaded here; null: try. A file that cannot be read is the engine's to explain. */
export function refuseBeforeLoading(asked: LoadQuestion): Refusal | null {
  const shape = shapeIfClose(asked);
  return shape === null ? null : refuseShape(shape, asked);
}

/** The same of a model whose shape is known. */
export function refuseShape(shape: ModelShape, asked: Omit<LoadQuestion, 'path'>): Refusal | null {
  const { memory, gpuLayers, flags, threads, promptThreads } = asked;
  // Layers that stay on the CPU beside a GPU are in neither's count, and no header says how much they are.
  if (memory !== 'host' && gpuLayers !== -1) return null;
  const costs = new AnalyticCostModel(shape, memory, os.availableParallelism());
  const least = shape.weightsBytes + leastKvBytes(shape, costs, flags);
  const marginBytes = costs.rules.marginBytes(limitOf(asked.readings, memory).limitBytes, memory);
  if (least + marginBytes <= roomBytes(asked.readings, memory)) return null;
  const plan = planContext(
    {
      model: planModelOf(shape),
      machine: {
        memory,
        readings: asServing(asked.readings),
        uncountedWeightsBytes: shape.weightsBytes,
        threads,
        promptThreads,
      },
      flags,
    },
    costs,
  );
  if (!plan.refused) return null;
  const sentence = `${bytesText(shape.weightsBytes)} of weights leave no room for a context, so they were not loaded (estimated from the file's header)`;
  return { ...plan, sentence };
}

/** The readings as they will be once the server's own processes are there. */
export function asServing(readings: Readings): Readings {
  return {
    ...readings,
    systemAvailableBytes: Math.max(0, readings.systemAvailableBytes - SERVER_BYTES),
    cgroupUsedBytes: readings.cgroupUsedBytes + SERVER_BYTES,
    processFootprintBytes: readings.processFootprintBytes + SERVER_BYTES,
  };
}

/** null: far from the line, or nothing that a header could say. */
function shapeIfClose({ path, memory, readings }: LoadQuestion): ModelShape | null {
  try {
    const { paths, index } = modelParts(path);
    if (index !== 1 || filesBytes(paths) < roomBytes(readings, memory) * CLOSE_SHARE) return null;
    const { header, weightsBytes } = readModelHeader(paths);
    // Layers for predicting several tokens are in the file, and the engine does not load them.
    const hasSkippedLayers = [...header.metadata.keys()].some((key) => key.endsWith('.nextn_predict_layers'));
    return hasSkippedLayers ? null : shapeOfHeader(header, weightsBytes);
  } catch {
    return null;
  }
}

/** Where weights may lie: beside a discrete GPU also in RAM. A GPU inside RAM has weights outside its own limit, but not outside RAM. */
function roomBytes(readings: Readings, memory: DeviceMemory): number {
  if (memory === 'host') return headroomOf(readings, memory).bytes;
  const hostBytes = hostHeadroomOf(readings).bytes;
  return memory === 'unified' ? hostBytes : hostBytes + headroomOf(readings, memory).bytes;
}

/** Of one request with the shortest context that flags and model allow, however long the one asked for. */
function leastKvBytes(shape: ModelShape, costs: AnalyticCostModel, flags: PlanFlags): number {
  const asked = flags.contextTokens === 'auto' ? MIN_CONTEXT_TOKENS : flags.contextTokens;
  const tokens = Math.min(asked, MIN_CONTEXT_TOKENS, shape.trainContextTokens || MIN_CONTEXT_TOKENS);
  return costs.cost({
    layout: 'shared',
    sequences: 1,
    cells: paddedCells(tokens, CELL_PADDING_TOKENS),
    batchTokens: 1,
    ubatchTokens: 1,
    keyType: flags.keyType,
    valueType: flags.valueType,
    flashAttention: flags.flashAttention,
    threads: 1,
    promptThreads: 1,
  }).kvBytes;
}
