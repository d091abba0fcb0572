import t from 'tap';
import { gate } from '../../src/shared/memory/gate.js';
import { liveChunkTokens } from '../../src/shared/memory/live-chunk.js';
import { refineByProbe } from '../../src/shared/memory/probe-refine.js';
import { findProfile } from '../../src/shared/memory/profiles.js';
import { MODELS, machineOfProfile, NOBODY_ELSE, SimulatedDevice } from '../../src/shared/simulation/index.js';
import {
  type ChunkPolicy,
  chunkFromOneReadingAtStart,
  type GrowingLoad,
  STEP_BYTES,
  serveGrowing,
  wholePromptBelowWatermark,
} from '../support/growing-server.js';

/**
 * The 24 GB machine that crashed: 17.76 GiB of working set, 16.5 GiB in use before the first step, 17.12 GiB in steady state, prompts of up
 * to 2048 tokens.
 */
const GIB = 2 ** 30;
const LIMIT_BYTES = 17.76 * GIB;
const CONTEXT_TOKENS = 2048;
const LOAD: GrowingLoad = {
  promptTokens: [500, 900, 2000, 1400, 2048, 256, 2048],
  firstStepExtraBytes: 0.62 * GIB,
};

function fieldDevice(): SimulatedDevice {
  const machine = machineOfProfile(findProfile('m4-pro-24gb')!, LIMIT_BYTES);
  const device = new SimulatedDevice(machine, NOBODY_ELSE);
  device.set('weights', 16.5 * GIB, 0);
  return device;
}

/** Probe once, then gate and live chunk before each step: what the load line does on an allocator of this kind. */
function loadLine(device: SimulatedDevice): ChunkPolicy {
  device.set('runtimeExtra', LOAD.firstStepExtraBytes, 0);
  const baseline = device.usedBytes(0);
  const room = () => device.readings(0).deviceFreeBytes;
  const probe = refineByProbe(
    {
      chunkTokens: CONTEXT_TOKENS,
      contextTokens: CONTEXT_TOKENS,
      runningCap: 1,
      bytesPerTokenContext: STEP_BYTES,
      spareCaches: 0,
    },
    {
      headroomBytes: room(),
      baselineUsedBytes: baseline,
      peakUsedBytes: baseline + STEP_BYTES * 32 * CONTEXT_TOKENS,
      chunkTokens: 32,
      contextTokens: CONTEXT_TOKENS,
      heldCaches: 1,
    },
  );
  t.equal(probe.chunkTokens, 196, 'the cap that was measured in the field');
  return () => {
    const chunk = liveChunkTokens({
      headroomBytes: room(),
      newCacheBytes: 0,
      bytesPerTokenContext: STEP_BYTES,
      contextTokens: CONTEXT_TOKENS,
      confirmedChunkTokens: probe.chunkTokens,
      standingChunkTokens: probe.chunkTokens,
    });
    const { decision } = gate(
      { newKvBytes: 0, transientBytes: STEP_BYTES * chunk * CONTEXT_TOKENS, cells: 0 },
      {
        headroomBytes: room(),
        reservedBytes: 0,
        freeCells: 1e6,
        evictableCells: 0,
        evictableBytes: 0,
        runningRequests: 1,
      },
      { bytes: room(), cells: 1e6 },
    );
    return decision === 'admit' ? chunk : null;
  };
}

t.test('baseline: a chunk from one reading at start crashes', async (t) => {
  const device = fieldDevice();
  const policy = chunkFromOneReadingAtStart(device, CONTEXT_TOKENS);
  t.match(serveGrowing(device, LOAD, policy), /over the limit/);
});

t.test('baseline: a watermark does not know how large the next prompt is', async (t) => {
  for (const share of [0.97, 0.99]) {
    t.match(serveGrowing(fieldDevice(), LOAD, wholePromptBelowWatermark(share)), /over the limit/, `${share}`);
  }
  const device = fieldDevice();
  t.equal(serveGrowing(device, LOAD, wholePromptBelowWatermark(0.95)), null, 'a low one lives');
  t.ok(device.usedBytes(0) > 0.95 * LIMIT_BYTES, 'because after its first prompt it serves nobody');
});

t.test('the load line serves the same prompts and stays under the limit', async (t) => {
  const device = fieldDevice();
  t.equal(serveGrowing(device, LOAD, loadLine(device)), null);
  t.ok(device.peakUsedBytes > 17.12 * GIB, 'prompts were served');
  t.ok(device.peakUsedBytes < LIMIT_BYTES - 0.2 * GIB, 'with more than the room that was too little in the field');
});

t.test('the model of that machine is the one that the simulation of hours uses', async (t) => {
  t.ok(Math.abs(MODELS['qwen3-30b-a3b-4bit'].shape.weightsBytes / GIB - 16.5) < 0.6);
});
