import type { ContextSpec, KvLayout } from '../engine.js';
import { CELL_PADDING_TOKENS } from './constants.js';
import { bytesOf, type ContextCost, type CostModel } from './cost-model.js';
import { type Headroom, headroomOf, hostHeadroomOf, type Limit, limitOf } from './headroom.js';
import { paddedCells } from './kv-shape.js';
import type { PlanFlags, PlanInput, PlanMachine, PlanModel } from './plan-types.js';

/** The question: what is free, what it costs, and what was asked for. */
export class PlanProblem {
  readonly model: PlanModel;
  readonly machine: PlanMachine;
  readonly headroom: Headroom;
  readonly limit: Limit;
  /** Of the limit, what is above a lowered line: part of the margin. */
  readonly aboveLineBytes: number;
  readonly marginBytes: number;
  /** What the context may take of the device's memory; negative when nothing is left. */
  readonly budgetBytes: number;
  readonly memFraction: number;
  /** What KV may take of it by --mem-fraction-static. */
  readonly staticBytes: number;
  /** What host buffers beside a discrete GPU may take. */
  readonly hostBudgetBytes: number;

  constructor(
    input: PlanInput,
    readonly costModel: CostModel,
    readonly flags: PlanFlags = input.flags,
  ) {
    const { readings, memory, uncountedWeightsBytes } = input.machine;
    this.model = input.model;
    this.machine = input.machine;
    this.headroom = headroomOf(readings, memory);
    this.limit = limitOf(readings, memory);
    const lineFraction = input.lineFraction ?? 1;
    this.aboveLineBytes = Math.ceil((1 - lineFraction) * this.limit.limitBytes);
    this.marginBytes = costModel.rules.marginBytes(this.limit.limitBytes, memory) + this.aboveLineBytes;
    this.budgetBytes = this.headroom.bytes - this.marginBytes - uncountedWeightsBytes;
    this.memFraction = this.flags.memFraction === 'auto' ? costModel.rules.defaultMemFraction : this.flags.memFraction;
    const lineBytes = this.limit.limitBytes - this.aboveLineBytes;
    this.staticBytes = this.memFraction * lineBytes - this.limit.usedBytes - uncountedWeightsBytes;
    const host = memory === 'discrete' ? hostHeadroomOf(readings) : null;
    this.hostBudgetBytes =
      host === null || host.terms.length === 0 ? Number.POSITIVE_INFINITY : host.bytes * lineFraction;
  }

  get rules() {
    return this.costModel.rules;
  }

  spec(layout: KvLayout, sequences: number, cells: number, chunkTokens: number): ContextSpec {
    const { flags, machine } = this;
    // A step carries the prompt chunk and one token of each running request. A standing engine does both in one ubatch, else the
    // few tokens over would read all weights a second time.
    const isStanding = this.rules.allocation === 'standing';
    const padded = paddedCells(cells, CELL_PADDING_TOKENS);
    const holdsTokens = layout === 'private' ? padded * sequences : padded;
    // No step is longer than what the context holds: the engine would lower it without a word.
    const stepTokens = isStanding ? Math.min(chunkTokens + sequences, holdsTokens) : chunkTokens;
    return {
      layout,
      sequences,
      cells: isStanding ? padded : cells,
      batchTokens: stepTokens,
      ubatchTokens: stepTokens,
      keyType: flags.keyType,
      valueType: flags.valueType,
      flashAttention: flags.flashAttention,
      threads: machine.threads,
      promptThreads: machine.promptThreads,
    };
  }

  cost(layout: KvLayout, sequences: number, cells: number, chunkTokens: number): ContextCost {
    return this.costModel.cost(this.spec(layout, sequences, cells, chunkTokens));
  }

  totalBytes(cost: ContextCost): number {
    return bytesOf(cost, this.machine.memory);
  }

  /** `share` of the budget; the fraction binds KV alone. */
  fits(cost: ContextCost, share = 1): boolean {
    return (
      this.totalBytes(cost) <= this.budgetBytes * share &&
      cost.kvBytes <= this.staticBytes &&
      (this.machine.memory !== 'discrete' || cost.hostBytes <= this.hostBudgetBytes)
    );
  }
}
