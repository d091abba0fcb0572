import type { BatchPlan } from './batch-plan.js';
import type { DiskTier } from './disk-tier.js';
import { type HostTier, TIER_MIN_TOKENS } from './host-tier.js';
import type { SequencePool } from './sequence-pool.js';

/** Nothing has run for so long: copies and writes delay nobody. Chosen: a pause between two turns of one client is shorter. */
const BACK_UP_AFTER_MS = 1_000;

/** Copies idle prefixes of the context towards the disk while nothing runs, one at a time, so that a restart or `--idle-release` loses none. */
export class IdleBackup {
  /** A shutdown waits for it: it does not wait for a pause, and takes the memory of what is written already. */
  isHurried = false;
  private busyAtMs = Number.NEGATIVE_INFINITY;
  /** When the content of each sequence was last used, as it was passed on. */
  private readonly passed = new Map<number, number>();

  constructor(
    private readonly plan: BatchPlan,
    private readonly tier: HostTier,
    private readonly disk: DiskTier,
  ) {}

  /** Plans the next copy. `isBusy`: there are requests. Returns whether there is more to do, now or after what is under way. */
  planNext(pool: SequencePool, isBusy: boolean, nowMs: number): boolean {
    if (isBusy || this.busyAtMs === Number.NEGATIVE_INFINITY) this.busyAtMs = nowMs;
    if (this.disk.isPaused(nowMs)) return false;
    if (isBusy || this.disk.isWriting || this.tier.hasPassing) return true;
    if (!this.isHurried && nowMs - this.busyAtMs < BACK_UP_AFTER_MS) return true;
    for (const sequence of pool.table.idle()) {
      const { id, tokens, cachedCount, cacheSalt, lastUsedMs } = sequence;
      if (this.passed.get(id) === lastUsedMs || this.plan.changesCells(id)) continue;
      if (pool.cells.ownCells(id) < TIER_MIN_TOKENS || this.disk.covers(tokens, cachedCount, cacheSalt)) continue;
      if (!this.tier.passOn(sequence, cachedCount, this.isHurried, nowMs)) continue;
      this.passed.set(id, lastUsedMs);
      return true;
    }
    return false;
  }
}
