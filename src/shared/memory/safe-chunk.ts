import { PREFILL_SAFETY_FRACTION } from './constants.js';

/**
 * Prompt tokens that may go through at once when a token costs `bytesPerTokenContext` for each context token:
 * floor(max(headroom, 0) × fraction / (cost × context)). Infinity when a token costs nothing.
 */
export function safeChunkTokens(
  headroomBytes: number,
  bytesPerTokenContext: number,
  contextTokens: number,
  fraction = PREFILL_SAFETY_FRACTION,
): number {
  const perToken = bytesPerTokenContext * contextTokens;
  if (perToken <= 0) return Number.POSITIVE_INFINITY;
  return Math.floor((Math.max(headroomBytes, 0) * fraction) / perToken);
}
