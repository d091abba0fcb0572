import type { StepTimes } from './chunk-policy.js';
import type { Request } from './request.js';

/** Drafts of one step at most. Chosen: with the token they follow they are eight rows, the most that GPU kernels for few rows take. */
export const DRAFT_TOKENS_MAX = 7;
/** A step with drafts is planned only after the one before it has ended: the device waits so long for it. Chosen: two wake-ups and a plan. */
const LATE_MICROS = 300;
/** Share of a step that one draft adds, before it was measured. Chosen: a row of SmolLM2 on 2 CPU cores takes 1.3 to 2 ms beside a step's 6 to 9. */
const DRAFT_SHARE_BEFORE = 0.25;
/** Gain below which it stays as it is: rates are estimates. Chosen. */
const GAIN_MIN = 1.1;

/** Where drafts come from, and how many are worth their cost. */
export interface DraftSource {
  /**
   * Drafts after the newest token that are worth their cost, at most `most`; 0: none. While that token is not known yet, an answer above 0
   * means that it is worth waiting for.
   */
  worthwhile(request: Request, most: number): number;
  /** `count` drafts to follow the newest token, which is known. */
  drafts(request: Request, count: number): Int32Array;
}

/** Drafts out of the request's own text (prompt-lookup.ts). */
export class LookupDrafts implements DraftSource {
  constructor(private readonly times: StepTimes) {}

  worthwhile(request: Request, most: number): number {
    request.lookup.read(request.tokens, request.knownCount);
    const { decodeMicros, draftTokenMicros } = this.times;
    if (decodeMicros === 0) return 0;
    const draftMicros = draftTokenMicros === 0 ? decodeMicros * DRAFT_SHARE_BEFORE : draftTokenMicros;
    return bestDraftCount(request.lookup.expectation(most), decodeMicros, draftMicros);
  }

  drafts(request: Request, count: number): Int32Array {
    return request.lookup.drafts(request.tokens, count);
  }
}

/**
 * How many drafts give the most tokens a second; 0 where the gain is not clear. `accepted[i]`: tokens that i + 1 drafts are expected to
 * bring beside the one that every step brings.
 */
export function bestDraftCount(accepted: readonly number[], decodeMicros: number, draftMicros: number): number {
  let best = 0;
  let bestSpeed = GAIN_MIN / decodeMicros;
  accepted.forEach((tokens, i) => {
    const speed = (1 + tokens) / (decodeMicros + LATE_MICROS + (i + 1) * draftMicros);
    if (speed <= bestSpeed) return;
    best = i + 1;
    bestSpeed = speed;
  });
  return best;
}
