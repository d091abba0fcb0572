import type { DownloadLimits } from '../../src/main/models/download.js';

/**
 * Hardly any pause between tries, so that tests of failures are quick. Waits for a Retry-After are bounded to 150 ms. A transfer may
 * stand still for long: on a busy machine the first bytes can take a second, and a try too many would fail tests that count them.
 */
export const QUICK_LIMITS: DownloadLimits = {
  attempts: 3,
  progressBytes: 1,
  backoffMs: 1,
  backoffMaxMs: 2,
  retryAfterMaxMs: 150,
  stallWindowMs: 60_000,
  stallFloorBytes: 4096,
};

/** For the tests in which a transfer does stand still. */
export const IMPATIENT_LIMITS: DownloadLimits = { ...QUICK_LIMITS, attempts: 2, stallWindowMs: 1_000 };
