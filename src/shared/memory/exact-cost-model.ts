import type { ContextSpec, MemoryBreakdown, ModelInfo } from '../engine.js';
import { standingRules } from './allocation-rules.js';
import { CELL_PADDING_TOKENS } from './constants.js';
import type { AllocationRules, ContextCost, CostModel } from './cost-model.js';
import type { DeviceMemory } from './headroom.js';

/** Measurements kept. Chosen: a plan makes about ten, a refusal tries a few knobs. */
const MEMORY_ENTRIES_MAX = 256;
/** Cells of one context at most, all streams together: the engine's edge refuses more (kCellsMax in addon/src/context.cc). */
export const CONTEXT_CELLS_MAX = 2 ** 23;

/**
 * What the engine notes of a cell on the heap, which its answer leaves out: position and shift (4 bytes each), place (12), and a bit for each
 * of 256 sequences (32). Derived from llama.cpp's KV cells.
 */
const CELL_NOTES_BYTES = 52;
/** A logit. Derived: the engine's outputs are fp32. */
const LOGIT_BYTES = 4;

/**
 * The engine's own answer (`Engine.measure`): exact to the byte, some milliseconds each, nothing allocated; and what it leaves out: one row
 * of logits for each sequence, and its notes on the cells. Answers are kept, so the same question costs nothing.
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
    private readonly model: Pick<ModelInfo, 'vocabularySize' | 'isRecurrent'>,
  ) {
    this.rules = standingRules(memory, cores);
  }

  cost(spec: ContextSpec): ContextCost {
    const key = keyOf(spec);
    const known = this.known.get(key);
    if (known) return known;
    this.measureCount++;
    const askable = withinEngine(spec);
    const cost = scaled(contextCost(this.measure(askable), this.memory), spec.cells / askable.cells);
    if (this.memory === 'host') cost.computeBytes += this.unmeasuredBytes(spec);
    else cost.hostBytes += this.unmeasuredBytes(spec);
    if (this.known.size >= MEMORY_ENTRIES_MAX) this.known.clear();
    this.known.set(key, cost);
    return cost;
  }

  /** In the process's own memory, wherever the device's is. */
  private unmeasuredBytes({ layout, sequences, cells }: ContextSpec): number {
    const allCells = layout === 'private' ? cells * sequences : cells;
    const { vocabularySize, isRecurrent } = this.model;
    // A recurrent state is one cell, whatever the span.
    const notesBytes = isRecurrent ? 0 : allCells * CELL_NOTES_BYTES;
    return sequences * vocabularySize * LOGIT_BYTES + notesBytes;
  }
}

/**
 * The largest context of this kind that can be asked about. What lies beyond can never be made; its cost is still wanted, so that a
 * refusal says how much memory is missing.
 */
function withinEngine(spec: ContextSpec): ContextSpec {
  const streams = spec.layout === 'private' ? spec.sequences : 1;
  if (spec.cells * streams <= CONTEXT_CELLS_MAX) return spec;
  return { ...spec, cells: Math.floor(CONTEXT_CELLS_MAX / streams / CELL_PADDING_TOKENS) * CELL_PADDING_TOKENS };
}

function scaled({ kvBytes, computeBytes, hostBytes }: ContextCost, factor: number): ContextCost {
  const times = (bytes: number) => Math.ceil(bytes * factor);
  return { kvBytes: times(kvBytes), computeBytes: times(computeBytes), hostBytes: times(hostBytes) };
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
