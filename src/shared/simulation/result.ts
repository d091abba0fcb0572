import type { ContextRung } from '../memory/context-ladder.js';
import type { Plan, Refusal } from '../memory/plan-types.js';

/** Milliseconds. */
export interface Spread {
  count: number;
  p50: number;
  p95: number;
  max: number;
}

/** The machine at one moment of a simulation. */
export interface Moment {
  atSeconds: number;
  /** Of the memory that the limit binds. */
  usedBytes: number;
  limitBytes: number;
  headroomBytes: number;
  /** KV of the context that stands, and how much of it holds cached prefixes. */
  kvBytes: number;
  cachedBytes: number;
  runningRequests: number;
  waitingRequests: number;
  evictions: number;
  /** Of the prompt tokens of repeats since the last moment, the share that came from the cache; NaN: there were none. */
  hitRate: number;
}

export interface SimulationResult {
  plan: Plan;
  ladder: ContextRung[];
  /** What ended the simulation early; null: nothing did. It must be null. */
  crash: string | null;
  seconds: number;
  /** Requests by how they ended; `done`: with their whole answer. */
  ends: Readonly<Record<string, number>>;
  /** Requests that were not over when the simulation ended. */
  open: number;
  answerTokens: number;
  promptTokens: number;
  answerTokensPerSecond: number;
  requestsPerHour: number;
  /** Arrival to leaving the queue; arrival to the first token. */
  waits: Spread;
  firstTokens: Spread;
  /** Evict ops, and those that rode in a record with prompt work behind them. */
  evictions: number;
  evictionsBeforePrefill: number;
  preemptions: number;
  /** Moves of the context on its ladder. */
  replans: Array<{ atSeconds: number; from: number; to: number; reason: string }>;
  limitBytes: number;
  peakUsedBytes: number;
  /** The most that other programs wanted and did not get; their memory was compressed or paged out meanwhile. */
  peakShortageBytes: number;
  /** Prompt tokens that came from the cache: of all, and of repeats alone. */
  hitRate: number;
  repeatHitRate: number;
  /** Longest time in which requests were there and nothing was computed, moved or ended. */
  longestStandstillMs: number;
  moments: Moment[];
}

export type SimulationOutcome = SimulationResult | Refusal;

export function isRefusal(outcome: SimulationOutcome): outcome is Refusal {
  return 'refused' in outcome;
}

export function spreadOf(values: number[]): Spread {
  if (values.length === 0) return { count: 0, p50: 0, p95: 0, max: 0 };
  const sorted = Float64Array.from(values).sort();
  const at = (share: number) => sorted[Math.min(Math.floor(sorted.length * share), sorted.length - 1)];
  return { count: sorted.length, p50: at(0.5), p95: at(0.95), max: sorted[sorted.length - 1] };
}
