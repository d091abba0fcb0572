import type { ContextSpec } from '../engine.js';
import { GROWING_RULES } from './allocation-rules.js';
import { BASE_SPAN_TOKENS } from './constants.js';
import type { ContextCost, CostModel } from './cost-model.js';
import { doublingSpan } from './kv-shape.js';

/**
 * The analytic model of an allocator that grows: private caches double from 4096 tokens, and a prompt step takes
 * `activationBytesPerTokenContext` for each of its tokens and each context token (attention that is not fused).
 */
export class GrowingCostModel implements CostModel {
  readonly source = 'analytic';
  readonly rules = GROWING_RULES;

  constructor(
    private readonly kvBytesPerToken: number,
    private readonly activationBytesPerTokenContext: number,
  ) {}

  cost(spec: ContextSpec): ContextCost {
    const tokens = spec.layout === 'shared' ? spec.cells : spec.sequences * this.spanTokens(spec.cells);
    return {
      kvBytes: tokens * this.kvBytesPerToken,
      computeBytes: this.activationBytesPerTokenContext * spec.ubatchTokens * spec.cells,
      hostBytes: 0,
    };
  }

  spanTokens(contextTokens: number): number {
    return doublingSpan(contextTokens, BASE_SPAN_TOKENS);
  }
}
