import fc from 'fast-check';
import t from 'tap';
import { liveChunkTokens } from '../../src/shared/memory/live-chunk.js';
import { refineByProbe } from '../../src/shared/memory/probe-refine.js';
import { refineStanding } from '../../src/shared/memory/probe-standing.js';
import { safeChunkTokens } from '../../src/shared/memory/safe-chunk.js';
import { GIB, MIB } from './memory-machines.js';

t.test('the 24 GB field case: 17.76 GiB limit, 17.12 GiB measured baseline', async (t) => {
  const room = Math.round((17.76 - 17.12) * GIB);
  t.equal(safeChunkTokens(room, 1024, 2048), 196);
  const live = { bytesPerTokenContext: 1024, contextTokens: 2048, newCacheBytes: 0, standingChunkTokens: null };
  const chunk = liveChunkTokens({ ...live, headroomBytes: room, confirmedChunkTokens: 196 });
  t.equal(chunk, 196, 'the useful minimum of 256 does not lift what the probe confirmed');
});

t.test('a standing context runs no larger chunk than it was made for and the probe confirmed', async () => {
  const size = fc.integer({ min: 32, max: 4096 });
  fc.assert(
    fc.property(fc.nat(1e12), fc.nat(1e11), fc.nat(4096), size, size, size, (headroomBytes, cache, act, ...sizes) => {
      const [contextTokens, confirmedChunkTokens, standingChunkTokens] = sizes;
      const chunk = liveChunkTokens({
        headroomBytes,
        newCacheBytes: cache,
        bytesPerTokenContext: act,
        contextTokens,
        confirmedChunkTokens,
        standingChunkTokens,
      });
      return chunk >= 1 && chunk <= Math.min(contextTokens, confirmedChunkTokens, standingChunkTokens);
    }),
  );
});

t.test('a growing allocator never goes under the confirmed floor nor over what is safe', async () => {
  fc.assert(
    fc.property(fc.nat(1e12), fc.integer({ min: 1, max: 4096 }), fc.integer({ min: 32, max: 2048 }), (...drawn) => {
      const [headroomBytes, act, confirmed] = drawn;
      const contextTokens = 8192;
      const input = { headroomBytes, bytesPerTokenContext: act, contextTokens, newCacheBytes: 0 };
      const chunk = liveChunkTokens({ ...input, confirmedChunkTokens: confirmed, standingChunkTokens: null });
      const safe = safeChunkTokens(headroomBytes, act, contextTokens);
      return chunk <= Math.max(safe, Math.min(256, confirmed)) && chunk <= contextTokens;
    }),
  );
});

t.test('the probe refines down, never up, and keeps the plan when it saw nothing', async () => {
  const plan = { chunkTokens: 398, contextTokens: 2048, runningCap: 1, bytesPerTokenContext: 1024, spareCaches: 2 };
  fc.assert(
    fc.property(fc.nat(2e10), fc.nat(2e9), fc.nat(4), (headroomBytes, transient, heldCaches) => {
      const measured = { headroomBytes, baselineUsedBytes: 1e9, peakUsedBytes: 1e9 + transient };
      const result = refineByProbe(plan, { ...measured, chunkTokens: 128, contextTokens: 2048, heldCaches });
      if (result.refused) return true;
      if (result.inconclusive) return transient < MIB && result.chunkTokens === plan.chunkTokens;
      return result.chunkTokens <= plan.chunkTokens && result.chunkTokens >= 32 && heldCaches >= 3;
    }),
  );
});

t.test('the probe of a standing engine finds the extra and gives up chunk for it', async (t) => {
  const plan = { plannedBytes: 500 * MIB, leastFreeBytes: 100 * MIB, computeBytes: 200 * MIB };
  const seen = {
    usedBeforeContextBytes: GIB,
    usedPeakBytes: GIB + 560 * MIB,
    headroomBytes: 300 * MIB,
    chunkTokens: 512,
  };
  t.match(refineStanding(plan, seen), { refused: false, runtimeExtraBytes: 60 * MIB, chunkTokens: 512 });
  t.match(refineStanding(plan, { ...seen, headroomBytes: 50 * MIB }), { refused: false, chunkTokens: 384 });
  t.match(refineStanding(plan, { ...seen, headroomBytes: 0, chunkTokens: 32 }), { refused: true });
  t.match(refineStanding(plan, { ...seen, usedPeakBytes: GIB }), { inconclusive: true, chunkTokens: 512 });
});
