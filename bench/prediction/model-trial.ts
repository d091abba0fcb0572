/**
 * Plans every cell of the grid for one model, makes the context, runs a step, and reports what the process took. Linux.
 * Arguments: model file, cells as JSON.
 */
import { readFileSync } from 'node:fs';
import os from 'node:os';
import type { ContextSpec, Engine, Readings } from '../../src/shared/engine.js';
import { ExactCostModel } from '../../src/shared/memory/exact-cost-model.js';
import { PlanProblem } from '../../src/shared/memory/plan-problem.js';
import type { PlanFlags, PlanInput } from '../../src/shared/memory/plan-types.js';
import { planContext } from '../../src/shared/memory/planner.js';
import { NativeEngine } from '../../src/workers/native-engine.js';
import { runProbeStep } from '../../src/workers/probe-step.js';
import { report } from '../measure/trial.js';
import { BUDGET_BYTES, type CellResult, type GridCell } from './grid.js';

const THREADS = os.availableParallelism();
/** Tokens of a step that is computed. Chosen: the whole grid in minutes; buffers of larger steps are counted whole all the same. */
const STEP_TOKENS_MAX = 128;
/** Small enough to be used to its last page by one step. */
const LEAST: GridCell = { layout: 'shared', sequences: 2, contextTokens: 512, chunkTokens: 64 };

const [modelPath, cellsText] = process.argv.slice(2);
const cells = JSON.parse(cellsText) as GridCell[];

const engine: Engine = new NativeEngine();
const model = engine.loadModel({ path: modelPath, gpuLayers: 0, devices: [], useMmap: true, useMlock: false });
const costs = new ExactCostModel((spec) => engine.measure(spec), 'host', THREADS, model);
const readings = readingsOfBudget();
let stepId = 0;

// What the first context and step of a process leave behind is not a context's: threads, code, tables.
withContext(specOf(LEAST), () => {});
const before = memoryOf();
let least = before;
withContext(specOf(LEAST), () => {
  least = memoryOf();
});
const results = cells.map(measureCell);
engine.close();
report(results);

/**
 * A buffer is used to its end only at the end of the span, which would be hours of prefill here. So the least context is measured in
 * resident memory, with the engine's tables; what a cell takes beyond it, in the address space of its buffers.
 */
function measureCell(cell: GridCell): CellResult {
  const plan = planContext(inputOf(cell), costs);
  if (plan.refused) {
    const { layout, sequences, contextTokens, chunkTokens } = cell;
    const cost = new PlanProblem(inputOf(cell), costs).cost(layout, sequences, contextTokens, chunkTokens);
    return { cell, refused: true, plannedBytes: cost.kvBytes + cost.computeBytes, takenBytes: 0 };
  }
  let takenBytes = 0;
  withContext(plan.spec, () => {
    takenBytes = memoryOf().addressBytes - least.addressBytes + (least.residentBytes - before.residentBytes);
  });
  return { cell, refused: false, plannedBytes: plan.cost.kvBytes + plan.cost.computeBytes, takenBytes };
}

/** Makes the context, runs a step, looks, and frees it. */
function withContext(spec: ContextSpec, look: () => void): void {
  engine.createContext(spec);
  const failure = runProbeStep(engine, spec, 1, stepCounts(spec), stepId, 0);
  stepId += 2;
  if (failure !== null) throw new Error(`${JSON.stringify(spec)}: ${failure}`);
  look();
  engine.freeContext();
}

function specOf(cell: GridCell): ContextSpec {
  const plan = planContext(inputOf(cell), costs);
  if (plan.refused) throw new Error(plan.sentence);
  return plan.spec;
}

function inputOf(cell: GridCell): PlanInput {
  return {
    model: { trainContextTokens: model.trainContextTokens, weightsBytes: model.sizeBytes },
    machine: { memory: 'host', readings, uncountedWeightsBytes: 0, threads: THREADS, promptThreads: THREADS },
    flags: flagsOf(cell),
  };
}

/** Tokens of each sequence: as many as a step may have and time allows, spread evenly, so that private streams are computed in one go. */
function stepCounts({ layout, sequences, cells, batchTokens }: ContextSpec): number[] {
  const stepTokens = Math.min(batchTokens, STEP_TOKENS_MAX);
  const most = layout === 'private' ? cells : Math.floor(cells / sequences);
  const each = Math.min(most, Math.floor(stepTokens / sequences));
  const rest = Math.min(most - each, stepTokens - each * sequences);
  return Array.from({ length: sequences }, (_, sequence) => each + (sequence === 0 ? rest : 0));
}

/** A machine on which the planner's budget for the context is BUDGET_BYTES. */
function readingsOfBudget(): Readings {
  const limitBytes = 64 * 2 ** 30;
  return {
    deviceTotalBytes: 0,
    deviceFreeBytes: 0,
    systemTotalBytes: limitBytes,
    systemAvailableBytes: BUDGET_BYTES + costs.rules.marginBytes(limitBytes, 'host'),
    cgroupLimitBytes: 0,
    cgroupUsedBytes: 0,
    cgroupReclaimableBytes: 0,
    processFootprintBytes: 0,
    pressureLevel: 0,
  };
}

function flagsOf({ layout, sequences, contextTokens, chunkTokens }: GridCell): PlanFlags {
  return {
    contextTokens,
    runningCap: sequences,
    chunkTokens,
    memFraction: 'auto',
    maxTotalTokens: 'auto',
    layout,
    keyType: 'f16',
    valueType: 'f16',
    flashAttention: 'auto',
    prefixCache: false,
  };
}

/** Memory of this process that is no file's: the pages it has, and the addresses. */
function memoryOf(): { residentBytes: number; addressBytes: number } {
  globalThis.gc?.();
  const resident = /RssAnon:\s+(\d+) kB/.exec(readFileSync('/proc/self/status', 'utf8'));
  let addressBytes = 0;
  for (const line of readFileSync('/proc/self/maps', 'utf8').split('\n')) {
    const mapping = /^([0-9a-f]+)-([0-9a-f]+) rw-p \S+ \S+ 0 *(\[heap\])?$/.exec(line);
    if (mapping) addressBytes += Number.parseInt(mapping[2], 16) - Number.parseInt(mapping[1], 16);
  }
  return { residentBytes: Number(resident?.[1]) * 1024, addressBytes };
}
