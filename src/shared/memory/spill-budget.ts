/** What spilling depends on: measured rates, and what the policy of the ladder allows. */
export interface SpillInput {
  /** So long may the old context stand while sequences are written (rung-policy.ts). */
  spillMs: number;
  marginBytes: number;
  /** Bytes of one cell's keys and values, and the model's layers. */
  cellBytes: number;
  layers: number;
  /** Measured rate of writing; 0: nothing was written yet. */
  bytesPerMs: number;
  /** Measured time of computing a prompt token; 0: not measured yet. */
  promptTokenMicros: number;
}

/** A disk's rate before it is known. Chosen: a good one's, because what is not tried is not measured; a slow one is found out by the first file. */
export const ASSUMED_SPILL_BYTES_PER_MS = 1_000_000;
/** Computing must cost this many times what writing and reading cost. Chosen: everybody waits for the disk, only the lost for computing. */
const WORTH_FACTOR = 2;
/** Part of the margin that may be in memory on the way to the file. Chosen: half a percent of the limit, which readings are wrong by. */
const BUFFER_MARGIN_SHARE = 1 / 8;
/** Tensors hold keys or values of a layer; where only some layers have any, their rows are larger. Chosen: half of the layers have both, or
 *  all have one of them. */
const TENSORS_A_LAYER = 1;

/** Tokens of running requests that may be written to a file instead of being computed again, together and of the longest. */
export function spillBudget(input: SpillInput): { spillTokens: number; spillLongestTokens: number } {
  const { spillMs, marginBytes, cellBytes, layers, promptTokenMicros } = input;
  const bytesPerMs = input.bytesPerMs || ASSUMED_SPILL_BYTES_PER_MS;
  const diskMicros = (2 * cellBytes * 1000) / bytesPerMs;
  const isWorth = promptTokenMicros === 0 || promptTokenMicros >= WORTH_FACTOR * diskMicros;
  if (!isWorth || spillMs <= 0 || cellBytes <= 0) return { spillTokens: 0, spillLongestTokens: 0 };
  const rowBytes = cellBytes / Math.max(1, layers * TENSORS_A_LAYER);
  return {
    spillTokens: Math.floor((spillMs * bytesPerMs) / cellBytes),
    spillLongestTokens: Math.floor((marginBytes * BUFFER_MARGIN_SHARE) / rowBytes),
  };
}
