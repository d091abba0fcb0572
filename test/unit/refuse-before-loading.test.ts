/** Weights that cannot be loaded are refused from the header, and nothing that could be planned after loading is. */
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import t from 'tap';
import type { Readings } from '../../src/shared/engine.js';
import { AnalyticCostModel } from '../../src/shared/memory/analytic-cost-model.js';
import type { CostModel } from '../../src/shared/memory/cost-model.js';
import type { DeviceMemory } from '../../src/shared/memory/headroom.js';
import { AUTOMATIC_FLAGS } from '../../src/shared/memory/plan-profile.js';
import { planContext } from '../../src/shared/memory/planner.js';
import { refuseBeforeLoading, refuseShape, SERVER_BYTES } from '../../src/workers/refuse-before-loading.js';
import { tinyHeader } from '../support/gguf-header.js';
import { GIB, MIB, readings, shape } from './memory-machines.js';

const ASKED = { gpuLayers: -1, flags: AUTOMATIC_FLAGS, threads: 2, promptThreads: 2 };

function group(limitBytes: number, usedBytes = 60 * MIB): Readings {
  return readings({
    systemTotalBytes: 16 * GIB,
    systemAvailableBytes: 12 * GIB,
    cgroupLimitBytes: limitBytes,
    cgroupUsedBytes: usedBytes,
    processFootprintBytes: usedBytes,
  });
}

t.test('weights larger than their group are refused with the arithmetic and a limit that would do', async (t) => {
  const heavy = shape({ weightsBytes: 300 * MIB });
  const refusal = refuseShape(heavy, { ...ASKED, memory: 'host', readings: group(256 * MIB) });
  t.match(refusal, { refused: true, binds: 'cgroup', sentence: /^300\.0 MiB of weights .* not loaded/ });
  t.equal(refusal?.ledger.find(({ owner }) => owner === 'weights')?.bytes, 300 * MIB);
  const enough = refusal?.sufficientLimitBytes ?? 0;
  t.ok(enough > 300 * MIB);
  t.equal(refuseShape(heavy, { ...ASKED, memory: 'host', readings: group(enough) }), null);
});

t.test('what a plan after loading would take is never refused before', (t) => {
  fc.assert(
    fc.property(
      fc.integer({ min: 10, max: 4000 }),
      fc.integer({ min: 128, max: 8000 }),
      fc.integer({ min: 0, max: 120 }),
      fc.constantFrom<DeviceMemory>('host', 'unified', 'discrete'),
      fc.constantFrom<number | 'auto'>('auto', 512, 4096),
      (weightsMib, limitMib, usedMib, memory, contextTokens) => {
        const model = shape({ weightsBytes: weightsMib * MIB });
        const before: Readings = {
          ...group(limitMib * MIB, usedMib * MIB),
          deviceTotalBytes: memory === 'host' ? 0 : limitMib * MIB,
          deviceFreeBytes: memory === 'host' ? 0 : (limitMib - Math.min(usedMib, limitMib)) * MIB,
        };
        const flags = { ...AUTOMATIC_FLAGS, contextTokens };
        if (refuseShape(model, { ...ASKED, flags, memory, readings: before }) === null) return;
        // After loading, at its best: nothing but the weights has been taken, and computing takes nothing.
        const costs = new AnalyticCostModel(model, memory, 2);
        const free: CostModel = {
          source: 'exact',
          rules: costs.rules,
          cost: (spec) => ({ kvBytes: costs.cost(spec).kvBytes, computeBytes: 0, hostBytes: 0 }),
        };
        const plan = planContext(
          {
            model: { trainContextTokens: model.trainContextTokens, weightsBytes: model.weightsBytes },
            machine: {
              memory,
              readings: before,
              uncountedWeightsBytes: model.weightsBytes,
              threads: 2,
              promptThreads: 2,
            },
            flags,
          },
          free,
        );
        if (!plan.refused) throw new Error('refused before loading, planned after it');
      },
    ),
    { numRuns: 500, seed: 4 },
  );
  t.end();
});

t.test('a context that was asked for is left to the exact plan, and so are layers beside a GPU', async (t) => {
  const model = shape({ weightsBytes: 100 * MIB });
  const flags = { ...AUTOMATIC_FLAGS, contextTokens: 1_000_000 };
  t.equal(refuseShape(model, { ...ASKED, flags, memory: 'host', readings: group(GIB) }), null);
  const heavy = shape({ weightsBytes: 8 * GIB });
  t.equal(refuseShape(heavy, { ...ASKED, gpuLayers: 10, memory: 'unified', readings: group(GIB) }), null);
});

t.test('the file is asked: one too large is refused, one far from the line or unreadable is not', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'plimsoll-refuse-'));
  const path = join(folder, 'm.gguf');
  writeFileSync(path, Buffer.concat([tinyHeader({ tensorElements: 100 * MIB }), Buffer.alloc(4096)]));
  const asked = { ...ASKED, path, memory: 'host' as const };
  // 4096 bytes and a header are not near half of what is free, whatever the header says.
  t.equal(refuseBeforeLoading({ ...asked, readings: group(190 * MIB) }), null);
  t.match(refuseBeforeLoading({ ...asked, readings: group(64 * MIB, 64 * MIB - 4096) }), {
    refused: true,
  });
  writeFileSync(path, 'GGUF, but no more than that');
  t.equal(refuseBeforeLoading({ ...asked, readings: group(64 * MIB, 64 * MIB - 40) }), null);
  t.equal(refuseBeforeLoading({ ...asked, path: join(folder, 'none.gguf'), readings: group(1) }), null);
  t.ok(SERVER_BYTES > 0);
});
