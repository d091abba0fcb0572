/**
 * How many prompt tokens one step takes. Alone, a prompt gets the whole planned chunk; beside running decodes, as many as keep the
 * step within the target inter-token latency, by measured rates.
 */

/** Weight of the newest step in the running averages. Chosen: about the last ten steps count. */
const NEWEST_WEIGHT = 0.2;
/** Below this a chunk wastes the matrix kernels, and a CPU's attention tiles. Measured: 15 % of the speed on 2 CPU cores are lost at 64 tokens,
 *  5 % at 128. */
export const CHUNK_FLOOR_TOKENS = 64;

export class StepTimes {
  /** Microseconds of a step with decodes alone; 0: not measured yet. */
  decodeMicros = 0;
  /** Microseconds that one draft adds to a decode; 0: not measured yet. */
  draftTokenMicros = 0;
  /** Microseconds that one more prompt token adds to a step; 0: not measured yet. */
  promptTokenMicros = 0;

  /** One step's duration, and what it did. */
  record(stepMicros: number, decodes: number, promptTokens: number, draftTokens = 0): void {
    if (draftTokens > 0) {
      const micros = Math.max(1, (stepMicros - this.decodeMicros) / draftTokens);
      if (promptTokens === 0) this.draftTokenMicros = average(this.draftTokenMicros, micros);
    } else if (promptTokens === 0) {
      if (decodes > 0) this.decodeMicros = average(this.decodeMicros, stepMicros);
    } else if (promptTokens >= 16) {
      const rest = Math.max(0, stepMicros - (decodes > 0 ? this.decodeMicros : 0));
      this.promptTokenMicros = average(this.promptTokenMicros, rest / promptTokens);
    }
  }

  /** Expected duration of a step, microseconds; 0 when nothing is known. */
  estimate(decodes: number, promptTokens: number): number {
    return (decodes > 0 ? this.decodeMicros : 0) + promptTokens * this.promptTokenMicros;
  }

  /** Prompt tokens that fit into `targetMicros` beside `decodes`, at most `plannedTokens`, and no fewer than are useful. */
  chunkTokens(decodes: number, plannedTokens: number, targetMicros: number): number {
    if (decodes === 0 || this.promptTokenMicros === 0) return plannedTokens;
    const budget = Math.floor((targetMicros - this.decodeMicros) / this.promptTokenMicros);
    return Math.min(plannedTokens, Math.max(CHUNK_FLOOR_TOKENS, budget));
  }
}

function average(old: number, sample: number): number {
  return old === 0 ? sample : old + (sample - old) * NEWEST_WEIGHT;
}
