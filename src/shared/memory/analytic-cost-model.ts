import type { ContextSpec } from '../engine.js';
import { standingRules } from './allocation-rules.js';
import { CELL_PADDING_TOKENS } from './constants.js';
import type { AllocationRules, ContextCost, CostModel } from './cost-model.js';
import type { DeviceMemory } from './headroom.js';
import { kvBytesPerToken, paddedCells } from './kv-shape.js';
import type { ModelShape } from './model-shape.js';

const FLOAT_BYTES = 4;
/** Compute bytes are raised by the largest part by which the engine's own answer was above the estimate: a plan for a machine that
 *  is not here may be too careful, not too bold. Measured: 3.6 % over shapes from 0.1 to 30 billion parameters. */
const ESTIMATE_ALLOWANCE = 1.04;
/** The graph's inputs of a token beside its embedding: positions, output ids. Measured. */
const INPUT_FLOATS = 6;

/**
 * What the engine's context would take, from the model's shape: for machines and models that are not here. KV is exact; compute
 * bytes follow the widest point of a layer, with factors measured on the engine's own answers for ten shapes (1,080 contexts).
 */
export class AnalyticCostModel implements CostModel {
  readonly source = 'analytic';
  readonly rules: AllocationRules;

  constructor(
    private readonly shape: ModelShape,
    private readonly memory: DeviceMemory,
    cores: number,
  ) {
    this.rules = standingRules(memory, cores);
  }

  cost(spec: ContextSpec): ContextCost {
    const estimate = Math.max(this.layerBytes(spec), this.outputBytes(spec));
    const computeBytes = Math.ceil(estimate * ESTIMATE_ALLOWANCE);
    // Beside a GPU the embedding rows and masks of a step are filled in RAM.
    const hostBytes = this.memory === 'host' ? 0 : stepTokens(spec) * this.shape.embeddingLength * FLOAT_BYTES;
    return { kvBytes: this.kvBytes(spec), computeBytes, hostBytes };
  }

  private kvBytes(spec: ContextSpec): number {
    const { shape } = this;
    const cells = paddedCells(spec.cells, CELL_PADDING_TOKENS);
    const streams = spec.layout === 'private' ? spec.sequences : 1;
    const windows = spec.layout === 'private' ? 1 : spec.sequences;
    const windowCells = paddedCells(shape.slidingWindowTokens * windows + stepTokens(spec), CELL_PADDING_TOKENS);
    const slidingCells = Math.min(cells, windowCells);
    const fullHeads = shape.kvHeads.filter((_, layer) => !shape.slidingLayers[layer]);
    const slidingHeads = shape.kvHeads.filter((_, layer) => shape.slidingLayers[layer]);
    const bytes = (kvHeads: number[]) =>
      kvBytesPerToken(
        { kvHeads, keyLength: shape.keyLength, valueLength: shape.valueLength },
        spec.keyType,
        spec.valueType,
      );
    const tokens = streams * (cells * bytes(fullHeads) + slidingCells * bytes(slidingHeads));
    return Math.ceil(tokens + spec.sequences * shape.stateBytesPerSequence);
  }

  /** The widest point of a layer: its feed-forward part, its experts, or its attention. */
  private layerBytes(spec: ContextSpec): number {
    const { shape } = this;
    const width = shape.embeddingLength;
    const query = shape.queryHeadCount * shape.keyLength;
    const kv = Math.max(...shape.kvHeads, 0) * shape.keyLength;
    const cells = paddedCells(spec.cells, CELL_PADDING_TOKENS);
    const feedForward = 4 * width + 3 * shape.feedForwardLength;
    const inner = shape.expertUsedCount * shape.expertFeedForwardLength;
    const experts = Math.max(3 * inner + 4 * width, 2 * shape.expertUsedCount * width + inner + 3 * width);
    const wide = shape.expertUsedCount > 0 ? experts : feedForward;
    // Fused attention never holds the scores, only a mask in 16 bits; unfused holds a score for each head and cell.
    const floats =
      spec.flashAttention === 'off'
        ? Math.max(wide, (shape.queryHeadCount + 1) * cells + 2 * query + 2 * kv + 3 * width)
        : Math.max(wide, 2 * query + 3 * kv + width) + cells / 2;
    return stepTokens(spec) * (floats + INPUT_FLOATS) * FLOAT_BYTES;
  }

  /** Logits of one token for each sequence, and the rows they are made from. */
  private outputBytes(spec: ContextSpec): number {
    const logits = spec.sequences * this.shape.vocabularySize;
    return (logits + 2.5 * stepTokens(spec) * this.shape.embeddingLength) * FLOAT_BYTES;
  }
}

/** The engine makes no step longer than the whole context. */
function stepTokens(spec: ContextSpec): number {
  const cells = paddedCells(spec.cells, CELL_PADDING_TOKENS) * (spec.layout === 'private' ? spec.sequences : 1);
  return Math.min(spec.ubatchTokens, cells);
}
