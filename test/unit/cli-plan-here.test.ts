/** When the model is loaded for a plan of this machine, and what is planned when it is not. */
import t from 'tap';
import { planHere } from '../../src/main/cli/plan-here.js';
import type { PlanModelFile } from '../../src/main/cli/plan-model.js';
import { parseConfig } from '../../src/shared/config.js';
import { type Engine, EngineError, type Readings } from '../../src/shared/engine.js';
import { shape } from './memory-machines.js';

const MIB = 2 ** 20;
const GIB = 1024 * MIB;

const READINGS: Readings = {
  deviceTotalBytes: 0,
  deviceFreeBytes: 0,
  systemTotalBytes: 8 * GIB,
  systemAvailableBytes: 6 * GIB,
  cgroupLimitBytes: 0,
  cgroupUsedBytes: 0,
  cgroupReclaimableBytes: 0,
  processFootprintBytes: 50 * MIB,
  pressureLevel: 0,
};

/** An engine on a CPU that notes what is asked of it. `onLoad`, `onMeasure`: what goes wrong there. */
function engineOf(weightsBytes: number, onLoad = () => {}, onMeasure = () => {}) {
  const calls: string[] = [];
  const engine = {
    devices: () => [{ name: 'CPU', description: '', kind: 'cpu', totalBytes: 8 * GIB, freeBytes: 8 * GIB }],
    readings: () => READINGS,
    loadModel() {
      calls.push('load');
      onLoad();
      return { trainContextTokens: 4096, sizeBytes: weightsBytes, vocabularySize: 100, isRecurrent: false };
    },
    freeModel: () => calls.push('free'),
    measure() {
      onMeasure();
      return [{ device: 'CPU', isHost: true, modelBytes: 0, contextBytes: 100 * MIB, computeBytes: 10 * MIB }];
    },
  };
  return { calls, engine: engine as unknown as Engine };
}

function asked(weightsBytes: number, path: string | null = '/m.gguf') {
  const model: PlanModelFile = { name: 'm', path, shape: shape({ weightsBytes, trainContextTokens: 4096 }) };
  return { config: parseConfig(), model, devices: [], lineFraction: 1 };
}

const outOfMemory = () => {
  throw new EngineError('out_of_memory', 'no');
};

t.test('a model that fits is loaded, measured and let go; the server itself is counted as in use', async (t) => {
  const { engine, calls } = engineOf(GIB);
  const { result, notes } = planHere(engine, asked(GIB));
  t.strictSame(calls, ['load', 'free']);
  t.strictSame(notes, []);
  if (result.refused) throw new Error('refused');
  t.equal(result.costSource, 'exact');
  t.equal(result.cost.kvBytes, 100 * MIB);
  const inUse = result.ledger.find(({ owner }) => owner.startsWith('in use'));
  t.equal(inUse?.bytes, 2 * GIB + 40 * MIB);
});

t.test('weights that leave nothing beside the margin are not loaded', async (t) => {
  const { engine, calls } = engineOf(6 * GIB);
  const { result, notes } = planHere(engine, asked(6 * GIB));
  t.strictSame(calls, []);
  t.equal(result.refused, true);
  t.match(notes, [/estimated from the header .* not loaded/]);
});

t.test('a model that is not here is planned for from its header', async (t) => {
  const { engine, calls } = engineOf(GIB);
  const { result, notes } = planHere(engine, asked(GIB, null));
  t.strictSame(calls, []);
  t.match(result, { refused: false, costSource: 'analytic' });
  t.match(notes, [/m is not downloaded/]);
});

t.test('an engine that has no memory for weights is believed, whatever the header says', async (t) => {
  t.throws(() => planHere(engineOf(GIB, outOfMemory).engine, asked(GIB)), { code: 'out_of_memory' });
});

t.test('a measurement that fails leaves no model behind', async (t) => {
  const { engine, calls } = engineOf(GIB, undefined, outOfMemory);
  t.throws(() => planHere(engine, asked(GIB)), { code: 'out_of_memory' });
  t.strictSame(calls, ['load', 'free']);
});

t.test('a lowered line is planned under, and named', async (t) => {
  const { result, notes } = planHere(engineOf(GIB).engine, { ...asked(GIB), lineFraction: 0.9 });
  t.match(notes, ['planned under a lowered line: 90 % of the limit']);
  t.ok(result.ledger.some(({ owner }) => owner === 'above the lowered line'));
});
