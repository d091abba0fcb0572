import type { LedgerLine } from './plan-types.js';

/** Every byte has one of these owners. Cells of a standing pool are split by what is in them. */
export const LEDGER_OWNERS = [
  'weights',
  'kvActive',
  'kvCached',
  /** Cells that admitted requests will still fill. */
  'kvReserved',
  /** Cells of a standing pool with nothing in them. */
  'kvFree',
  'compute',
  'outputs',
  /** What the backend takes at run time beyond the plan, as the probe saw it. */
  'runtimeExtra',
  'hostPrefixTier',
  /** Rings, prompt tokens and other standing buffers of ours. */
  'promptArenas',
  /** The process before the model was loaded: runtime, code, heaps. */
  'processBaseline',
] as const;

export type LedgerOwner = (typeof LEDGER_OWNERS)[number];

/** Difference of ledger and readings that calls for a look. Chosen: allocators round, heaps breathe, and readings are a step old. */
export const UNEXPLAINED_ALARM_BYTES = 128 * 1024 * 1024;
export const UNEXPLAINED_ALARM_FRACTION = 0.05;

/** Who has what. Its sum is checked against what the readings say is used. */
export class Ledger {
  private readonly bytes = new Map<LedgerOwner, number>();

  /** @throws RangeError for a negative or fractional number of bytes: a ledger with one is wrong already. */
  set(owner: LedgerOwner, bytes: number): void {
    if (!Number.isSafeInteger(bytes) || bytes < 0) throw new RangeError(`ledger: ${owner} cannot have ${bytes} bytes`);
    this.bytes.set(owner, bytes);
  }

  get(owner: LedgerOwner): number {
    return this.bytes.get(owner) ?? 0;
  }

  total(): number {
    let sum = 0;
    for (const bytes of this.bytes.values()) sum += bytes;
    return sum;
  }

  /** Used by the readings and owned by nobody; negative where the ledger claims more than is used (pages not touched yet). */
  unexplainedBytes(usedBytes: number): number {
    return usedBytes - this.total();
  }

  alarms(usedBytes: number): boolean {
    const allowed = Math.max(UNEXPLAINED_ALARM_BYTES, usedBytes * UNEXPLAINED_ALARM_FRACTION);
    return this.unexplainedBytes(usedBytes) > allowed;
  }

  lines(): LedgerLine[] {
    return LEDGER_OWNERS.map((owner) => ({ owner, bytes: this.get(owner) }));
  }
}

/** The larger of what the device and what the process say is used: each misses what the other sees. */
export function usedBytesOf(deviceUsedBytes: number, processFootprintBytes: number): number {
  return Math.max(deviceUsedBytes, processFootprintBytes);
}
