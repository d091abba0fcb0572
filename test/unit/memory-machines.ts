/** Machines, models and flags for the tests of the load line. */
import fc from 'fast-check';
import type { MemoryBreakdown, Readings } from '../../src/shared/engine.js';
import { AnalyticCostModel } from '../../src/shared/memory/analytic-cost-model.js';
import { ExactCostModel } from '../../src/shared/memory/exact-cost-model.js';
import type { DeviceMemory } from '../../src/shared/memory/headroom.js';
import type { ModelShape } from '../../src/shared/memory/model-shape.js';
import { AUTOMATIC_FLAGS } from '../../src/shared/memory/plan-profile.js';
import type { PlanFlags, PlanInput } from '../../src/shared/memory/plan-types.js';

export const MIB = 2 ** 20;
export const GIB = 2 ** 30;

export function readings(changes: Partial<Readings>): Readings {
  return {
    deviceTotalBytes: 0,
    deviceFreeBytes: 0,
    systemTotalBytes: 0,
    systemAvailableBytes: 0,
    cgroupLimitBytes: 0,
    cgroupUsedBytes: 0,
    cgroupReclaimableBytes: 0,
    processFootprintBytes: 0,
    pressureLevel: 0,
    ...changes,
  };
}

/** SmolLM2-135M: 23,040 bytes of KV a token. */
export const SMOL: ModelShape = {
  architecture: 'llama',
  name: 'smol',
  layerCount: 30,
  embeddingLength: 576,
  feedForwardLength: 1536,
  expertUsedCount: 0,
  expertFeedForwardLength: 0,
  queryHeadCount: 9,
  kvHeads: new Array<number>(30).fill(3),
  keyLength: 64,
  valueLength: 64,
  vocabularySize: 49_152,
  trainContextTokens: 8192,
  slidingWindowTokens: 0,
  slidingLayers: new Array<boolean>(30).fill(false),
  stateBytesPerSequence: 0,
  weightsBytes: 96_576_768,
};

export function shape(changes: Partial<ModelShape>): ModelShape {
  const merged = { ...SMOL, ...changes };
  const { layerCount } = merged;
  const heads = changes.kvHeads ?? [3];
  return {
    ...merged,
    kvHeads: Array.from({ length: layerCount }, (_, layer) => heads[layer % heads.length]),
    slidingLayers: changes.slidingLayers ?? new Array<boolean>(layerCount).fill(false),
  };
}

/** A machine of which `freeBytes` of `limitBytes` are free, weights not yet loaded. */
export function machineInput(
  memory: DeviceMemory,
  limitBytes: number,
  freeBytes: number,
  model: ModelShape,
  flags: Partial<PlanFlags> = {},
): PlanInput {
  const isHost = memory === 'host';
  return {
    model: { trainContextTokens: model.trainContextTokens, weightsBytes: model.weightsBytes },
    machine: {
      memory,
      readings: readings({
        deviceTotalBytes: isHost ? 0 : limitBytes,
        deviceFreeBytes: isHost ? 0 : freeBytes,
        systemTotalBytes: isHost ? limitBytes : limitBytes * 2,
        systemAvailableBytes: isHost ? freeBytes : limitBytes * 2,
      }),
      uncountedWeightsBytes: model.weightsBytes,
      threads: 2,
      promptThreads: 2,
    },
    flags: { ...AUTOMATIC_FLAGS, ...flags },
  };
}

/** An exact cost model whose engine answers what the analytic one estimates; it counts its questions. */
export function exactCosts(model: ModelShape, memory: DeviceMemory): ExactCostModel {
  const engine = new AnalyticCostModel(model, memory, 2);
  return new ExactCostModel(
    (spec): MemoryBreakdown[] => {
      const cost = engine.cost(spec);
      const device = { device: 'D', isHost: memory === 'host', modelBytes: 0 };
      return [
        { ...device, contextBytes: cost.kvBytes, computeBytes: cost.computeBytes },
        { device: 'CPU', isHost: true, modelBytes: 0, contextBytes: 0, computeBytes: cost.hostBytes },
      ];
    },
    memory,
    2,
    // The analytic one counts logits with the rest.
    { vocabularySize: 0, isRecurrent: true },
  );
}

export const anyMemory = fc.constantFrom<DeviceMemory>('host', 'unified', 'discrete');

/** Shapes from a toy to a large model; without sliding windows, whose cost is no straight line. */
export const anyShape = fc
  .record({
    layerCount: fc.integer({ min: 1, max: 64 }),
    embeddingLength: fc.constantFrom(256, 576, 1024, 2560, 4096),
    feedForwardLength: fc.constantFrom(512, 1536, 4096, 14_336),
    queryHeadCount: fc.constantFrom(4, 9, 16, 32),
    kvHeads: fc.constantFrom([1], [2], [8], [16]),
    keyLength: fc.constantFrom(64, 128),
    vocabularySize: fc.constantFrom(32_000, 49_152, 151_936),
    trainContextTokens: fc.constantFrom(2048, 8192, 40_960, 131_072),
    weightsBytes: fc.constantFrom(70e6, 500e6, 2.5e9, 16e9),
  })
  .map((fields) => shape({ ...fields, valueLength: fields.keyLength }));

export const anyFlags: fc.Arbitrary<Partial<PlanFlags>> = fc.record({
  contextTokens: fc.oneof(fc.constant<'auto'>('auto'), fc.integer({ min: 64, max: 200_000 })),
  runningCap: fc.oneof(fc.constant<'auto'>('auto'), fc.integer({ min: 1, max: 128 })),
  chunkTokens: fc.oneof(fc.constant<'auto'>('auto'), fc.integer({ min: 16, max: 4096 })),
  memFraction: fc.oneof(fc.constant<'auto'>('auto'), fc.double({ min: 0.1, max: 1, noNaN: true })),
  maxTotalTokens: fc.oneof(fc.constant<'auto'>('auto'), fc.integer({ min: 64, max: 500_000 })),
  layout: fc.constantFrom<PlanFlags['layout']>('auto', 'shared', 'private'),
});
