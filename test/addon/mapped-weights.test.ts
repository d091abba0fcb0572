/** What the plan counts as mapped weights is what the process holds of the file: loaded without mapping, it is its own memory. */
import t from 'tap';
import { NativeEngine } from '../../src/workers/native-engine.js';
import { leastContext, uncountedWeights } from '../../src/workers/start-forward.js';
import { requireTestModel, type TestModelName } from '../support/test-models.js';

const MIB = 2 ** 20;
/** Heaps breathe by some megabytes between two loads. */
const TOLERANCE_BYTES = 4 * MIB;

// Model tests wait for the cores that other tests use.
t.setTimeout(180_000);

/** Memory of the process with the model loaded, and what the plan would count beside it. */
function loaded(name: TestModelName, useMmap: boolean): { footprintBytes: number; uncountedBytes: number } {
  const engine = new NativeEngine();
  engine.loadModel({ path: requireTestModel(name), gpuLayers: 0, devices: [], useMmap, useMlock: false });
  const { processFootprintBytes } = engine.readings();
  const breakdown = engine.measure(leastContext({ threads: 1, promptThreads: 1 }));
  engine.close();
  return { footprintBytes: processFootprintBytes, uncountedBytes: uncountedWeights(breakdown, 'host', useMmap) };
}

// What the first model of a process takes for good is no weight of the next.
loaded('smollm2', true);

// Nothing, most, and a little of each is laid out anew for this CPU.
for (const name of ['smollm2', 'smollm2-q4_0', 'gemma3-270m'] as const) {
  t.test(`${name}: weights that stay mapped are counted to a few megabytes`, async (t) => {
    const mapped = loaded(name, true);
    const read = loaded(name, false);
    const heldBytes = read.footprintBytes - mapped.footprintBytes;
    const offBytes = mapped.uncountedBytes - heldBytes;
    t.ok(Math.abs(offBytes) < TOLERANCE_BYTES, `off by ${(offBytes / MIB).toFixed(1)} MiB`);
    t.ok(heldBytes > 10 * MIB, 'some weights stay mapped');
    t.equal(read.uncountedBytes, 0, 'what was read is in the readings');
  });
}
