import type { Readings } from '../../src/shared/engine.js';
import type { HeadroomTerms } from '../../src/shared/memory/headroom.js';
import { number, type VectorRow } from './vectors.js';

/** RAM of the machine of a vector: rows do not say, and nothing depends on it beyond its being there. */
const SYSTEM_TOTAL_BYTES = 1e15;

/** L, A and F of a row as the readings of a machine with unified memory. */
export function readingsOf(row: VectorRow): Readings {
  const limit = number(row, 'L');
  return {
    deviceTotalBytes: limit,
    deviceFreeBytes: limit - number(row, 'A'),
    systemTotalBytes: SYSTEM_TOTAL_BYTES,
    systemAvailableBytes: number(row, 'F'),
    cgroupLimitBytes: 0,
    cgroupUsedBytes: 0,
    cgroupReclaimableBytes: 0,
    processFootprintBytes: 0,
    pressureLevel: 0,
  };
}

export function termsOf(limitBytes: number, usedBytes: number, systemAvailableBytes: number): HeadroomTerms {
  return {
    deviceLimitBytes: limitBytes,
    deviceUsedBytes: usedBytes,
    systemAvailableBytes,
    cgroupHeadroomBytes: null,
  };
}
