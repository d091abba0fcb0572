import type { Readings } from '../shared/engine.js';
import type { DeviceMemory } from '../shared/memory/headroom.js';

/** Bytes in use where the context lies: on the device beside a discrete GPU, else of this process. */
export function usedBytes(readings: Readings, memory: DeviceMemory): number {
  const deviceUsedBytes = readings.deviceTotalBytes - readings.deviceFreeBytes;
  if (memory === 'discrete') return deviceUsedBytes;
  // Metal counts its allocations, the system counts the process: each misses what the other sees.
  return memory === 'unified'
    ? Math.max(deviceUsedBytes, readings.processFootprintBytes)
    : readings.processFootprintBytes;
}

/**
 * Use of memory at the marks of a start: before the model, with it, with the context, after the probe. The differences are what each
 * really took; what is used later beyond all of it is unexplained.
 */
export class MemoryWatch {
  readonly baselineBytes: number;
  weightsTakenBytes = 0;
  contextTakenBytes = 0;
  /** What the largest step took beyond the context: the backend's own pools. */
  runtimeExtraBytes = 0;

  constructor(
    private readonly memory: DeviceMemory,
    before: Readings,
  ) {
    this.baselineBytes = usedBytes(before, memory);
  }

  modelLoaded(readings: Readings): void {
    this.weightsTakenBytes = Math.max(0, usedBytes(readings, this.memory) - this.baselineBytes);
  }

  contextMade(readings: Readings): void {
    this.contextTakenBytes = Math.max(
      0,
      usedBytes(readings, this.memory) - this.baselineBytes - this.weightsTakenBytes,
    );
  }

  probed(readings: Readings): void {
    const before = this.baselineBytes + this.weightsTakenBytes + this.contextTakenBytes;
    this.runtimeExtraBytes = Math.max(0, usedBytes(readings, this.memory) - before);
  }

  /**
   * Used, and owned by nobody in the ledger; `contextBytes`: KV and compute of the context that stands now, `hostPrefixBytes`: saved
   * prefixes, which lie in the process and not on a card.
   */
  unexplainedBytes(readings: Readings, contextBytes: number, hostPrefixBytes: number): number {
    const prefixBytes = this.memory === 'discrete' ? 0 : hostPrefixBytes;
    const owned = prefixBytes + this.baselineBytes + this.weightsTakenBytes + contextBytes + this.runtimeExtraBytes;
    return usedBytes(readings, this.memory) - owned;
  }
}
