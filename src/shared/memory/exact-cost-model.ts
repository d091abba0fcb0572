import type { ContextSpec, MemoryBreakdown } from '../engine.js';
import { standingRules } from './allocation-rules.js';
import type { AllocationRules, ContextCost, CostModel } from './cost-model.js';
import type { DeviceMemory } from './headroom.js';

/** Measurements kept. Chosen: a plan makes about ten, a refusal tries a few knobs. */
const MEMORY_ENTRIES_MAX = 256;

/**
 * The engine's own answer (`Engine.measure`): exact to the byte, some milliseconds each, nothing allocated. Answers are kept, so the
 * same question costs nothing.
 */
export class ExactCostModel implements CostModel {
  readonly source = 'exact';
  readonly rules: AllocationRules;
  /** Questions that went to the engine. */
  measureCount = 0;
  private readonly known = new Map<string, ContextCost>();

  constructor(
    private readonly measure: (spec: ContextSpec) => MemoryBreakdown[],
    private readonly memory: DeviceMemory,
    cores: number,
  ) {
    this.rules = standingRules(memory, cores);
  }

  cost(spec: ContextSpec): ContextCost {
    const key = keyOf(spec);
    const known = this.known.get(key);
    if (known) return known;
    this.measureCount++;
    const cost = contextCost(this.measure(spec), this.memory);
    if (this.known.size >= MEMORY_ENTRIES_MAX) this.known.clear();
    this.known.set(key, cost);
    return cost;
  }
}

/** Context and compute bytes of a breakdown, by where they lie. Model bytes are the weights' affair. */
export function contextCost(breakdown: readonly MemoryBreakdown[], memory: DeviceMemory): ContextCost {
  const cost: ContextCost = { kvBytes: 0, computeBytes: 0, hostBytes: 0 };
  for (const part of breakdown) {
    if (part.isHost && memory !== 'host') {
      cost.hostBytes += part.contextBytes + part.computeBytes;
      continue;
    }
    cost.kvBytes += part.contextBytes;
    cost.computeBytes += part.computeBytes;
  }
  return cost;
}

function keyOf(spec: ContextSpec): string {
  const { layout, sequences, cells, batchTokens, ubatchTokens, keyType, valueType, flashAttention } = spec;
  return `${layout} ${sequences} ${cells} ${batchTokens} ${ubatchTokens} ${keyType} ${valueType} ${flashAttention}`;
}
