import { PREFILL_SAFETY_FRACTION, SPARE_CACHES } from './constants.js';

export interface RunningCapInput {
  headroomBytes: number;
  /** Bytes of one request's own cache. */
  cacheBytes: number;
  /** Bytes of the smallest prompt step worth running, beside the caches. */
  minimumStepBytes: number;
  /** null: as many as memory holds. */
  explicit: number | null;
  spareCaches?: number;
  safetyFraction?: number;
}

/** Requests that can each have a private cache while the smallest step still fits. An explicit value is taken as it is: whether
 *  it fits is for the refusal to say, not for this to lower. */
export function runningCap(input: RunningCapInput): number {
  if (input.explicit !== null) return input.explicit;
  const fraction = input.safetyFraction ?? PREFILL_SAFETY_FRACTION;
  const forCaches = input.headroomBytes - input.minimumStepBytes / fraction;
  const caches = Math.floor(forCaches / Math.max(input.cacheBytes, 1));
  return Math.max(caches - (input.spareCaches ?? SPARE_CACHES), 1);
}
