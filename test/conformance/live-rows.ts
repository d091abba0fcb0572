import { MIN_CHUNK_TOKENS } from '../../src/shared/memory/constants.js';
import { chunkTransientBytes, gate } from '../../src/shared/memory/gate.js';
import { headroom, headroomOf } from '../../src/shared/memory/headroom.js';
import { liveChunkTokens } from '../../src/shared/memory/live-chunk.js';
import { PROBE_DEFAULTS, refineByProbe } from '../../src/shared/memory/probe-refine.js';
import { runningCap } from '../../src/shared/memory/running-cap.js';
import { safeChunkTokens } from '../../src/shared/memory/safe-chunk.js';
import { readingsOf, termsOf } from './readings.js';
import { type Fields, type Json, number, numberOrNull, type VectorRow } from './vectors.js';

export function maxRunningRow(row: VectorRow): Json {
  return runningCap({
    headroomBytes: number(row, 'budget'),
    cacheBytes: number(row, 'cache'),
    minimumStepBytes: MIN_CHUNK_TOKENS * number(row, 'act') * number(row, 'C'),
    explicit: numberOrNull(row, 'user'),
  });
}

/** A new cache is charged unless a finished one can be taken over. */
function newCacheBytes(row: VectorRow): number {
  return (numberOrNull(row, 'reusable') ?? 0) > 0 ? 0 : (numberOrNull(row, 'cache') ?? 0);
}

/** One request at the gate while another runs, so that what does not fit waits. */
export function gateRow(row: VectorRow): Json {
  const room = headroomOf(readingsOf(row), 'unified').bytes;
  const contextTokens = number(row, 'ctx');
  const chunkTokens = Math.min(numberOrNull(row, 'cap') ?? Number.POSITIVE_INFINITY, number(row, 'new'));
  const transientBytes = chunkTransientBytes(number(row, 'act'), chunkTokens, contextTokens);
  const decision = gate(
    { newKvBytes: newCacheBytes(row), transientBytes, cells: 0 },
    {
      headroomBytes: room,
      reservedBytes: 0,
      freeCells: Number.POSITIVE_INFINITY,
      evictableCells: 0,
      evictableBytes: 0,
      runningRequests: 1,
    },
    { bytes: Number.POSITIVE_INFINITY, cells: Number.POSITIVE_INFINITY },
  );
  return { fits: decision.decision === 'admit', estimate: decision.needBytes, headroom: room };
}

export function liveChunkRow(row: VectorRow): Json {
  const cap = numberOrNull(row, 'cap');
  // Without a planned chunk there is nothing to follow: the chunk is not managed.
  if (cap === null) return null;
  return liveChunkTokens({
    headroomBytes: headroomOf(readingsOf(row), 'unified').bytes,
    newCacheBytes: newCacheBytes(row),
    bytesPerTokenContext: number(row, 'act'),
    contextTokens: number(row, 'C'),
    confirmedChunkTokens: cap,
    standingChunkTokens: null,
  });
}

export function probeRow(row: VectorRow): Json {
  const baseline = number(row, 'baseline');
  const room = headroom(termsOf(number(row, 'L'), baseline, number(row, 'F'))).bytes;
  const result = refineByProbe(
    {
      chunkTokens: number(row, 'cap'),
      contextTokens: number(row, 'C'),
      runningCap: numberOrNull(row, 'R') ?? 0,
      bytesPerTokenContext: number(row, 'act'),
      spareCaches: PROBE_DEFAULTS.spareCaches,
    },
    {
      headroomBytes: room,
      baselineUsedBytes: baseline,
      peakUsedBytes: number(row, 'peak'),
      chunkTokens: numberOrNull(row, 'chunk') ?? PROBE_DEFAULTS.chunkTokens,
      contextTokens: number(row, 'ctx'),
      heldCaches: number(row, 'held'),
    },
  );
  const got: Fields = {
    target: result.targetCaches,
    measured: result.measuredBytesPerTokenContext,
    safe: result.safeChunkTokens,
    headroom: result.headroomBytes,
    chunk_cap: result.refused ? null : result.chunkTokens,
    act: result.bytesPerTokenContext,
    inconclusive: result.inconclusive,
    refused: result.refused,
  };
  return got;
}

export function safeChunkRow(row: VectorRow): Json {
  return safeChunkTokens(number(row, 'headroom'), number(row, 'act'), number(row, 'C'));
}
