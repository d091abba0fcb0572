import { safeChunkTokens } from '../../src/shared/memory/safe-chunk.js';
import { SimulatedCrash, type SimulatedDevice } from '../../src/shared/simulation/index.js';

/** Unfused attention, as in the field case: bytes that a prompt token takes for each context token while its step runs. */
export const STEP_BYTES = 1024;

export interface GrowingLoad {
  promptTokens: readonly number[];
  /** What the backend takes with its first step, and no reading before it shows. */
  firstStepExtraBytes: number;
}

/** How many prompt tokens go into the next step, with `doneTokens` of the prompt done; null: not now. */
export type ChunkPolicy = (device: SimulatedDevice, doneTokens: number, promptTokens: number) => number | null;

/**
 * Serves prompts one after the other on an allocator that takes memory while a step runs. Returns what killed it, or null. A prompt for
 * which the policy has no chunk is left out.
 */
export function serveGrowing(device: SimulatedDevice, load: GrowingLoad, policy: ChunkPolicy): string | null {
  try {
    load.promptTokens.forEach((promptTokens, second) => {
      let doneTokens = 0;
      while (doneTokens < promptTokens) {
        const chunk = policy(device, doneTokens, promptTokens);
        if (chunk === null) return;
        const count = Math.min(chunk, promptTokens - doneTokens);
        doneTokens += count;
        device.set('runtimeExtra', load.firstStepExtraBytes, second * 1000);
        device.set('transient', STEP_BYTES * count * doneTokens, second * 1000);
        device.set('transient', 0, second * 1000);
      }
    });
    return null;
  } catch (error) {
    if (error instanceof SimulatedCrash) return error.message;
    throw error;
  }
}

function headroomBytes(device: SimulatedDevice): number {
  const { deviceFreeBytes, systemAvailableBytes } = device.readings(0);
  return Math.min(deviceFreeBytes, systemAvailableBytes);
}

/** The baseline that crashed in the field: one reading at start, before any step, sizes every chunk for life. */
export function chunkFromOneReadingAtStart(device: SimulatedDevice, contextTokens: number): ChunkPolicy {
  const chunk = safeChunkTokens(headroomBytes(device), STEP_BYTES, contextTokens);
  return () => chunk;
}

/** The baseline of a watermark: below a share of the limit any prompt goes, whatever it needs. */
export function wholePromptBelowWatermark(share: number): ChunkPolicy {
  return (device, doneTokens, promptTokens) =>
    device.usedBytes(0) < share * device.limitBytes ? promptTokens - doneTokens : null;
}
