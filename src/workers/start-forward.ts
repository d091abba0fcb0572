import os from 'node:os';
import { CONTROL, STOP } from '../shared/control-layout.js';
import { type ContextSpec, type DeviceInfo, EngineError, type MemoryBreakdown } from '../shared/engine.js';
import { CELL_PADDING_TOKENS } from '../shared/memory/constants.js';
import { contextLadder } from '../shared/memory/context-ladder.js';
import { ExactCostModel } from '../shared/memory/exact-cost-model.js';
import { type DeviceMemory, deviceMemoryOf, headroomOf } from '../shared/memory/headroom.js';
import { planUnderLine } from '../shared/memory/lowered-line.js';
import { stateSizeOf } from '../shared/memory/state-size.js';
import { streamLadder } from '../shared/memory/stream-ladder.js';
import { DeviceGaugeWriter } from './device-gauges.js';
import { asNamed } from './device-names.js';
import { LiveThreads } from './live-threads.js';
import { MemoryWatch } from './memory-watch.js';
import type { OpenedEngine } from './open-engine.js';
import { NO_PROBE, probeContext } from './probe-context.js';
import { refuseBeforeLoading } from './refuse-before-loading.js';
import type { ForwardData, ForwardReady, FromForward } from './worker-messages.js';

/** Progress is reported at most this often: the bar needs no more, and each report is a message. Chosen. */
const PROGRESS_STEP = 0.01;

export interface StartedForward {
  ready: ForwardReady;
  gauges: DeviceGaugeWriter;
  live: LiveThreads | null;
}

/** Look at the file → load → measure → plan → create the context. Returns null after it has told main of a refusal. @throws EngineError. */
export function startForward(
  { engine, vocabularyOf }: OpenedEngine,
  data: ForwardData,
  post: (message: FromForward) => void,
): StartedForward | null {
  const loadStartMs = performance.now();
  const devices = engine.devices();
  const options = { ...data.model, devices: asNamed(data.model.devices, devices) };
  const memory = memoryOf(devices, options.devices);
  const before = engine.readings();
  const hopeless = refuseBeforeLoading({ ...data, ...options, memory, readings: before });
  if (hopeless !== null) {
    post({ type: 'refused', refusal: hopeless });
    return null;
  }
  const watch = new MemoryWatch(memory, before);
  const live = data.liveThreads && memory === 'host' ? new LiveThreads(data.threads) : null;
  const model = engine.loadModel(options, progressReporter(post, new Int32Array(data.core.control)));
  watch.modelLoaded(engine.readings());
  const gauges = new DeviceGaugeWriter(data.core.deviceGauges, (readings) => headroomOf(readings, memory).bytes, watch);
  const planStartMs = performance.now();
  // Before the readings: a first measurement takes memory of its own.
  const uncountedWeightsBytes = uncountedWeights(engine.measure(leastContext(data)), memory, data.model.useMmap);
  const costs = new ExactCostModel((spec) => engine.measure(spec), memory, os.availableParallelism(), model);
  const { plan, lineFraction } = planUnderLine(
    {
      model: { trainContextTokens: model.trainContextTokens, weightsBytes: model.sizeBytes, canTrim: model.canTrim },
      machine: {
        memory,
        readings: engine.readings(),
        uncountedWeightsBytes,
        threads: data.threads,
        promptThreads: data.promptThreads,
      },
      flags: data.flags,
    },
    costs,
    data.lineFraction,
  );
  if (plan.refused) {
    post({ type: 'refused', refusal: plan });
    return null;
  }
  const pools = contextLadder(plan, costs, memory, data.fixedContext);
  const ladder = plan.asStreams && !data.fixedContext ? streamLadder(pools, plan, costs, memory) : pools;
  const stateSize = stateSizeOf(plan, costs, model.canTrim);
  const planMs = performance.now() - planStartMs;
  gauges.isShared = ladder[0].spec.layout === 'shared';
  const context = engine.createContext(ladder[0].spec);
  const epoch = 1;
  gauges.context(context, epoch);
  watch.contextMade(engine.readings());
  live?.begin();
  const threads = live?.threads ?? 0;
  const probe = data.probe ? probeContext(engine, watch, memory, plan, ladder[0], epoch, threads) : NO_PROBE;
  if (probe.refused) throw new EngineError('out_of_memory', probe.sentence);
  gauges.set({
    engineThreads: data.threads,
    baselineBytes: watch.baselineBytes,
    weightsTakenBytes: watch.weightsTakenBytes,
    runtimeExtraBytes: watch.runtimeExtraBytes,
  });
  gauges.refreshNow(engine, performance.now());
  return {
    gauges,
    live,
    ready: {
      type: 'ready',
      model,
      memory,
      plan,
      stateSize,
      lineFraction,
      ladder,
      rung: 0,
      context,
      probe,
      epoch,
      pieces: sharedPieces(vocabularyOf(model)),
      loadMs: planStartMs - loadStartMs,
      planMs,
      measureCount: costs.measureCount,
      canSpill: data.spillFolder !== null,
    },
  };
}

/** Reports progress; false, which cancels the load, once the stop word is raised. */
function progressReporter(post: (message: FromForward) => void, control: Int32Array): (fraction: number) => boolean {
  let reported = -1;
  return (fraction) => {
    if (fraction - reported >= PROGRESS_STEP || fraction === 1) {
      reported = fraction;
      post({ type: 'progress', fraction });
    }
    return Atomics.load(control, CONTROL.stop) === STOP.run;
  };
}

/** Where the memory is that the chosen devices compute in. */
export function memoryOf(devices: DeviceInfo[], chosen: string[]): DeviceMemory {
  const used = chosen.length > 0 ? devices.filter((device) => chosen.includes(device.name)) : devices;
  const gpu = used.find((device) => device.kind === 'gpu' || device.kind === 'integrated-gpu');
  return gpu ? deviceMemoryOf(gpu) : 'host';
}

/**
 * Weights that stay mapped from the file, in `breakdown` of any context: to the kernel they are file cache, which it counts as available, and
 * they are needed all the same. What the CPU lays out its own way was copied into the process's memory, which the readings show; its pages
 * of the file are not looked at again.
 */
export function uncountedWeights(
  breakdown: readonly MemoryBreakdown[],
  memory: DeviceMemory,
  useMmap: boolean,
): number {
  if (memory !== 'host' || !useMmap) return 0;
  return breakdown.reduce((sum, { isRepacked, modelBytes }) => sum + (isRepacked ? 0 : modelBytes), 0);
}

/** For a measurement of the weights: they are the same beside every context. */
export function leastContext({ threads, promptThreads }: { threads: number; promptThreads: number }): ContextSpec {
  const kinds = { layout: 'shared', keyType: 'f16', valueType: 'f16', flashAttention: 'auto' } as const;
  return {
    ...kinds,
    sequences: 1,
    cells: CELL_PADDING_TOKENS,
    batchTokens: 1,
    ubatchTokens: 1,
    threads,
    promptThreads,
  };
}

function sharedPieces(vocabulary: { pieces(withControl: boolean): { offsets: Int32Array; bytes: Uint8Array } }) {
  const { offsets, bytes } = vocabulary.pieces(false);
  const sharedOffsets = new Int32Array(new SharedArrayBuffer(offsets.byteLength));
  const sharedBytes = new Uint8Array(new SharedArrayBuffer(bytes.byteLength));
  sharedOffsets.set(offsets);
  sharedBytes.set(bytes);
  return { offsets: sharedOffsets, bytes: sharedBytes };
}
