import { AnalyticCostModel } from '../../src/shared/memory/analytic-cost-model.js';
import { ACTIVATION_BYTES_PER_TOKEN_CONTEXT_HEAD } from '../../src/shared/memory/constants.js';
import { AUTOMATIC_FLAGS } from '../../src/shared/memory/plan-profile.js';
import { planContext } from '../../src/shared/memory/planner.js';
import {
  Clients,
  isRefusal,
  MODELS,
  type ModelName,
  type SimulationResult,
  simulate,
} from '../../src/shared/simulation/index.js';
import { lineChart } from '../../src/shared/svg-chart.js';
import { FIELD_LIMIT_BYTES, machineNamed } from './loads.js';

const GB = 1e9;
const CHUNKS = [32, 64, 128, 256, 512, 1024, 2048, 4096];
/** Context of the field case. */
const CONTEXT_TOKENS = 2048;
const POOL_TOKENS = 8192;
/** What the field case's process used in steady state, with no prompt in work: 17.12 GiB. */
const FIELD_BASELINE_BYTES = 17.12 * 2 ** 30;

/** What each chunk would take, what was seen where the planner takes it, and the line. */
export function peakAgainstChunk(): string {
  const machine = machineNamed('m4-pro-24gb', FIELD_LIMIT_BYTES);
  const model = MODELS['qwen3-30b-a3b-4bit'];
  const costs = new AnalyticCostModel(model.shape, machine.memory, machine.engineThreads);
  const planned: Array<[number, number]> = [];
  const seen: Array<[number, number]> = [];
  const unfused: Array<[number, number]> = [];
  const perToken = ACTIVATION_BYTES_PER_TOKEN_CONTEXT_HEAD * model.shape.queryHeadCount * CONTEXT_TOKENS;
  for (const chunk of CHUNKS) {
    const cost = costs.cost({
      layout: 'shared',
      sequences: 4,
      cells: POOL_TOKENS,
      batchTokens: chunk + 4,
      ubatchTokens: chunk + 4,
      keyType: 'f16',
      valueType: 'f16',
      flashAttention: 'auto',
      threads: 1,
      promptThreads: 1,
    });
    const context = cost.kvBytes + cost.computeBytes + cost.hostBytes;
    planned.push([chunk, (model.shape.weightsBytes + context + machine.runtimeExtraBytes) / GB]);
    seen.push([chunk, simulatedPeak(chunk) / GB]);
    const steady = FIELD_BASELINE_BYTES + chunk * perToken;
    if (chunk <= 1024) unfused.push([chunk, steady / GB]);
  }
  const limit = FIELD_LIMIT_BYTES / GB;
  return lineChart({
    title: `Peak use against chunk: 24 GB Mac, ${model.shape.name}`,
    xLabel: 'prompt tokens a step',
    yLabel: 'GB of device memory',
    xScale: 'log2',
    xTicks: CHUNKS,
    yFrom: 17,
    formatY: (value) => value.toFixed(1),
    hasMarkers: true,
    series: [
      { name: 'what the chunk takes, fused attention', points: planned },
      { name: 'peak of ten simulated minutes; a gap: refused at start', points: seen },
      { name: 'unfused attention, an allocator that grows', points: unfused },
      { name: 'limit', isLimit: true, points: CHUNKS.map((chunk) => [chunk, limit]) },
    ],
  });
}

/** NaN where the planner refuses the chunk. */
function simulatedPeak(chunkTokens: number): number {
  const seconds = 600;
  const outcome = simulate({
    machine: machineNamed('m4-pro-24gb', FIELD_LIMIT_BYTES),
    chip: 'm4-pro',
    model: MODELS['qwen3-30b-a3b-4bit'],
    seconds,
    flags: { chunkTokens, contextTokens: CONTEXT_TOKENS, maxTotalTokens: POOL_TOKENS, layout: 'shared', runningCap: 4 },
    workload: new Clients({
      count: 4,
      thinkMs: 100,
      untilMs: seconds * 1000,
      seed: 3,
      shape: { promptTokens: [500, 1900], answerTokens: [16, 64] },
    }),
  });
  if (isRefusal(outcome)) return Number.NaN;
  if (outcome.crash !== null) throw new Error(`chunk ${chunkTokens}: ${outcome.crash}`);
  return outcome.peakUsedBytes;
}

const SWEEP: ReadonlyArray<readonly [ModelName, least: number, most: number]> = [
  ['llama-3.1-8b-q4', 5.2, 9],
  ['qwen3-30b-a3b-4bit', 17.4, 24],
  ['qwen3-32b-q4', 20, 27],
  ['llama-3.3-70b-q4', 43, 54],
];
const SWEEP_POINTS = 240;

/** The chunk that the planner chooses when the device's limit grows. The x axis is what is left beside the weights, so that models compare. */
export function chunkAgainstMemory(): string {
  const series = SWEEP.map(([name, least, most]) => {
    const { shape } = MODELS[name];
    const points: Array<[number, number]> = [];
    for (let i = 0; i <= SWEEP_POINTS; i++) {
      const limitBytes = (least + ((most - least) * i) / SWEEP_POINTS) * GB;
      points.push([(limitBytes - shape.weightsBytes) / GB, plannedChunk(name, limitBytes)]);
    }
    return { name: shape.name, points };
  });
  return lineChart({
    title: 'Planned chunk against memory',
    xLabel: 'GB that the device may use beside the weights',
    yLabel: 'prompt tokens a step',
    series,
  });
}

/** NaN where the model does not fit. */
function plannedChunk(name: ModelName, limitBytes: number): number {
  const { shape } = MODELS[name];
  const plan = planContext(
    {
      model: { trainContextTokens: shape.trainContextTokens, weightsBytes: shape.weightsBytes },
      machine: {
        memory: 'unified',
        readings: {
          deviceTotalBytes: limitBytes,
          deviceFreeBytes: limitBytes,
          systemTotalBytes: limitBytes * 2,
          systemAvailableBytes: limitBytes * 2,
          cgroupLimitBytes: 0,
          cgroupUsedBytes: 0,
          cgroupReclaimableBytes: 0,
          processFootprintBytes: 0,
          pressureLevel: 0,
        },
        uncountedWeightsBytes: shape.weightsBytes,
        threads: 4,
        promptThreads: 4,
      },
      flags: AUTOMATIC_FLAGS,
    },
    new AnalyticCostModel(shape, 'unified', 4),
  );
  return plan.refused ? Number.NaN : plan.chunkTokens;
}

export function cachedOverHours(title: string, result: SimulationResult): string {
  const hours = (seconds: number) => seconds / 3600;
  const last = result.moments[result.moments.length - 1];
  return lineChart({
    title,
    xLabel: 'hours',
    yLabel: 'GB of keys and values',
    formatY: (value) => value.toFixed(1),
    series: [
      { name: 'cached prefixes', points: result.moments.map((m) => [hours(m.atSeconds), m.cachedBytes / GB]) },
      {
        name: 'the context that stands: the line',
        isLimit: true,
        points: result.moments.map((m) => [hours(m.atSeconds), m.kvBytes / GB]),
      },
    ],
    xTicks: Array.from({ length: Math.ceil(hours(last.atSeconds)) + 1 }, (_, i) => i).filter(
      (hour) => hour <= hours(last.atSeconds) + 0.01,
    ),
  });
}
