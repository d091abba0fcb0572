import type { DownloadLimits } from '../../src/main/models/download.js';

/** Little patience, so that tests of failures are quick. Waits for a Retry-After are bounded to 150 ms. */
export const QUICK_LIMITS: DownloadLimits = {
  attempts: 3,
  progressBytes: 1,
  backoffMs: 1,
  backoffMaxMs: 2,
  retryAfterMaxMs: 150,
  stallWindowMs: 200,
  stallFloorBytes: 4096,
};
