import type { DeviceMemory } from '../shared/memory/headroom.js';
import type { RungLimits } from '../shared/memory/rung-policy.js';
import type { SchedulerLimits } from '../shared/scheduler/limits.js';

export interface OverlapOptions {
  /** Of the context that stands; the others of the ladder differ in cells, and in sequences where they are streams. */
  limits: SchedulerLimits;
  ladder: RungLimits;
  /** Requests that run at once, where the context has sequences for them. */
  runningCap: number;
  memory: DeviceMemory;
  rung: number;
  epoch: number;
  /** False: schedule and forward in lock step. */
  overlap: boolean;
  maxWaitMs: number;
  /** Bytes that evicted prefixes may take in host memory at most; 0: they are not saved. */
  hostPrefixBytesMax: number;
  /** Of the model. */
  layers: number;
  /** Sequences may wait in files while the context is replaced. */
  canSpill: boolean;
}
