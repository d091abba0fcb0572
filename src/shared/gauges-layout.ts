/**
 * Gauges: live values in a block under a sequence lock, one writer a block. The device block is written by the forward worker each
 * step and by a timer when idle; the scheduler block by the overlap worker each plan. Both are read by main (admission, metrics,
 * dashboard), the device block also by the scheduler (gate, live chunk). Float64, one a field; bytes unless named.
 *
 * ```
 * byte 0                8
 *      | sequence i32 | fields f64 ... |      odd sequence: a write is in progress
 * ```
 */
export const DEVICE_GAUGES = [
  'deviceTotalBytes',
  'deviceUsedBytes',
  'deviceFreeBytes',
  'systemTotalBytes',
  'systemAvailableBytes',
  /** 0: no limit. */
  'cgroupLimitBytes',
  'cgroupUsedBytes',
  /** File cache in the cgroup that the kernel can take back. */
  'cgroupReclaimableBytes',
  'processFootprintBytes',
  /** 0 none, 1 warning, 2 critical. */
  'pressureLevel',
  'headroomBytes',
  /** Tensors, wherever they lie. */
  'weightsBytes',
  /** In use before the model was loaded, and what loading it took of the memory that is watched (a mapped file takes none of it). */
  'baselineBytes',
  'weightsTakenBytes',
  'kvBytes',
  'computeBytes',
  /** What the backend takes at run time beyond the plan, as the probe saw it. */
  'runtimeExtraBytes',
  /** Evicted prefixes saved in host memory. */
  'hostPrefixBytes',
  /** Rate at which sequences were last written to files, bytes a millisecond; 0: never. */
  'spillBytesPerMs',
  /** In use, and owned by nobody in the ledger; negative where pages are not touched yet. */
  'unexplainedBytes',
  'kvTotalTokens',
  'kvUsedTokens',
  'contextEpoch',
  'steps',
  'decodedTokens',
  'lastStepMicros',
  'lastDecodeMicros',
  'lastSampleMicros',
  /** Microseconds since the start in which the engine had nothing to do although a request was running. */
  'deviceIdleMicros',
  'engineThreads',
  /** Code of the last engine failure; 0: none. */
  'lastErrorCode',
  /** performance.timeOrigin + now() of the reading, ms. */
  'readAtMs',
] as const;

export const SCHEDULER_GAUGES = [
  'kvCachedTokens',
  'kvActiveTokens',
  'plannedChunkTokens',
  'liveChunkTokens',
  'runningCap',
  'runningRequests',
  'waitingRequests',
  'evictions',
  'evictedTokens',
  'preemptions',
  'prefixHitTokens',
  'prefixLookupTokens',
  'hostPrefixSaves',
  'hostPrefixHits',
  'hostPrefixHitTokens',
  'hostPrefixEvictions',
  'diskPrefixSaves',
  'diskPrefixHits',
  'diskPrefixHitTokens',
  'diskPrefixEvictions',
  'diskPrefixErrors',
  /** What the host tier may hold now: it follows the headroom. */
  'hostPrefixBudgetBytes',
  /** Files of saved prefixes, and what they may take together. */
  'diskPrefixBytes',
  'diskPrefixBoundBytes',
  'draftedTokens',
  'acceptedDraftTokens',
  /** Headroom as the overlap worker read it last, and what will be left of it in a moment if it goes on falling. */
  'liveHeadroomBytes',
  'foreseenHeadroomBytes',
  /** Microseconds of the last schedule() call. */
  'lastScheduleMicros',
] as const;

export type DeviceGauge = (typeof DEVICE_GAUGES)[number];
export type SchedulerGauge = (typeof SCHEDULER_GAUGES)[number];

export const GAUGES_SEQUENCE_BYTE = 0;
export const GAUGES_DATA_BYTE = 8;

/** Bytes of the SharedArrayBuffer that holds a block of `fields`. */
export function gaugesBytes(fields: readonly string[]): number {
  return GAUGES_DATA_BYTE + fields.length * 8;
}
