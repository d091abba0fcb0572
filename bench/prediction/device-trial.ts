/**
 * `make bench-prediction-device`: the planned bytes of a context on a GPU with memory of its own, against the device's own reading, over the
 * grid of starts. Arguments: model file, device (the first GPU when left out).
 */
import path from 'node:path';
import type { ContextSpec, Engine } from '../../src/shared/engine.js';
import { ExactCostModel } from '../../src/shared/memory/exact-cost-model.js';
import { deviceMemoryOf } from '../../src/shared/memory/headroom.js';
import { AUTOMATIC_FLAGS } from '../../src/shared/memory/plan-profile.js';
import type { PlanInput } from '../../src/shared/memory/plan-types.js';
import { planContext } from '../../src/shared/memory/planner.js';
import { NativeEngine } from '../../src/workers/native-engine.js';
import { runProbeStep } from '../../src/workers/probe-step.js';
import { conditions } from '../measure/machine.js';
import { publish } from '../measure/results.js';
import { formatNumber } from '../measure/statistics.js';
import { ERROR_SHARE, GRID, type GridCell } from './grid.js';

const MIB = 2 ** 20;
const THREADS = 8;
/** A device hands memory out in pieces, and its reading tells of whole ones. Measured: 2 MiB on CUDA; a context has some such pieces. */
const READING_BYTES = 8 * MIB;

interface DeviceCell {
  cell: GridCell;
  refused: boolean;
  plannedBytes: number;
  /** By the device's reading: with the context, and after its largest step beyond that. */
  takenBytes: number;
  extraBytes: number;
}

const [modelPath, deviceName] = process.argv.slice(2);
if (modelPath === undefined) throw new Error('name a model file');
const engine: Engine = new NativeEngine();
const device = engine.devices().find(({ kind, name }) => kind === 'gpu' && (deviceName ?? name) === name);
if (device === undefined || deviceMemoryOf(device) !== 'discrete')
  throw new Error('there is no GPU with memory of its own');
const model = engine.loadModel({
  path: modelPath,
  gpuLayers: -1,
  devices: [device.name],
  useMmap: true,
  useMlock: false,
});
const costs = new ExactCostModel((spec) => engine.measure(spec), 'discrete', THREADS, model);
let stepId = 0;

const where = conditions();
const usedBytes = (): number => {
  const { deviceTotalBytes, deviceFreeBytes } = engine.readings();
  return deviceTotalBytes - deviceFreeBytes;
};
// The first context and step of a process load code and make handles, which stay.
runOnce(planned(GRID[0]));
const results = GRID.map(measureCell);
engine.close();

const ran = results.filter(({ refused }) => !refused);
const fits = ran.filter(
  ({ plannedBytes, takenBytes }) =>
    Math.abs(plannedBytes - takenBytes) <= Math.max(READING_BYTES, takenBytes * ERROR_SHARE),
);
const errors = ran.map(({ plannedBytes, takenBytes }) => plannedBytes - takenBytes);
const extras = ran.map(({ extraBytes }) => extraBytes);
const mib = (bytes: number) => `${formatNumber(bytes / MIB, 1)} MiB`;
publish({
  name: 'prediction-device',
  title: 'Plan against a GPU',
  method:
    `Private and shared KV × 1, 4 and 16 sequences × 512, 4096 and 16,384 tokens of context × chunks of 64, 512 and 2048: KV and compute of ` +
    `the plan on the device, and what the device's own reading says that the context took (asked: within ${ERROR_SHARE * 100} %; a reading is ` +
    `exact to ${READING_BYTES / MIB} MiB). What the largest step then takes beyond it is the backend's, and is what the probe finds.`,
  conditions: where,
  columns: [
    'model',
    'device',
    'within',
    'refused',
    'planned less the reading, least and most',
    'beyond it by the largest step',
  ],
  rows: [
    [
      path.basename(modelPath),
      device.description,
      `${fits.length} of ${ran.length}`,
      String(results.length - ran.length),
      `${mib(Math.min(...errors))} to ${mib(Math.max(...errors))}`,
      `${mib(Math.min(...extras))} to ${mib(Math.max(...extras))}`,
    ],
  ],
  notes: [],
  trials: results,
});
if (fits.length < ran.length) process.exitCode = 1;

function measureCell(cell: GridCell): DeviceCell {
  const plan = planContext(inputOf(cell), costs);
  if (plan.refused) return { cell, refused: true, plannedBytes: 0, takenBytes: 0, extraBytes: 0 };
  const taken = runOnce(plan.spec);
  const result = { cell, refused: false, plannedBytes: plan.cost.kvBytes + plan.cost.computeBytes, ...taken };
  process.stderr.write(`${JSON.stringify(result)}\n`);
  return result;
}

/** Makes the context and runs its largest step: a whole chunk for the first sequence, a token for each other one. */
function runOnce(spec: ContextSpec): Pick<DeviceCell, 'takenBytes' | 'extraBytes'> {
  const before = usedBytes();
  engine.createContext(spec);
  const made = usedBytes();
  const chunk = Math.min(spec.batchTokens - spec.sequences + 1, spec.cells - spec.sequences);
  const counts = Array.from({ length: spec.sequences }, (_, sequence) => (sequence === 0 ? chunk : 1));
  const failure = runProbeStep(engine, spec, 1, counts, stepId, 0);
  stepId += 2;
  if (failure !== null) throw new Error(`${JSON.stringify(spec)}: ${failure}`);
  const stepped = usedBytes();
  engine.freeContext();
  return { takenBytes: made - before, extraBytes: stepped - made };
}

function planned(cell: GridCell): ContextSpec {
  const plan = planContext(inputOf(cell), costs);
  if (plan.refused) throw new Error(plan.sentence);
  return plan.spec;
}

function inputOf({ layout, sequences, contextTokens, chunkTokens }: GridCell): PlanInput {
  return {
    model: { trainContextTokens: model.trainContextTokens, weightsBytes: model.sizeBytes },
    machine: {
      memory: 'discrete',
      readings: engine.readings(),
      uncountedWeightsBytes: 0,
      threads: THREADS,
      promptThreads: THREADS,
    },
    flags: { ...AUTOMATIC_FLAGS, contextTokens, runningCap: sequences, chunkTokens, layout, prefixCache: false },
  };
}
