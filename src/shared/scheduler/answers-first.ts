/**
 * Where a device computes a step's prompts and decodes one after the other (a CPU with attention in tiles, attention-tiles.ts), a prompt
 * that goes on beside answers saves nothing, and cut small for their sake it costs more. Answers that end soon then end first, and the
 * prompt follows in whole chunks.
 *
 * That is worth nothing where answers gain by being computed together, and a prompt that waits will join them late. A decode reads its own
 * keys and values, and weights that all decodes of a step share: where its own are more than the weights, there is little to gain.
 */

/** What prompts wait for answers at most. Chosen: what a prompt of a thousand tokens takes there by itself. With half of it, answers of 32 tokens
 *  in conversations of 2,000 were sometimes over it and sometimes not (2 CPU cores). */
const MOST_WAIT_MICROS = 2_000_000;
/** What one prompt waits for answers, one after another, in all. Chosen: five of the longest. */
export const ALL_WAITS_MS = 10_000;

export interface AnswersBeside {
  /** Sequences that decode in this step. */
  decodes: number;
  /** Cells of all of them. */
  cells: number;
  /** Tokens that the longest of their answers may still get. */
  tokensLeft: number;
  /** Expected duration of a step with decodes alone, microseconds; 0: not measured yet. */
  decodeMicros: number;
  /** Keys and values of one cell, bytes. */
  cellBytes: number;
  /** Weights that one step reads, bytes; 0: prompts and decodes are computed together. */
  weightsBytes: number;
}

/** Whether prompts that would be cut for the answers beside them wait until those have ended. */
export function answersEndFirst(beside: AnswersBeside): boolean {
  const { decodes, cells, tokensLeft, decodeMicros, cellBytes, weightsBytes } = beside;
  if (decodes === 0 || weightsBytes === 0) return false;
  if (cells * cellBytes < decodes * weightsBytes) return false;
  // Not measured: the next steps, alone, measure it.
  return tokensLeft * decodeMicros <= MOST_WAIT_MICROS;
}
