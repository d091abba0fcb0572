import { TIER_OP, TIER_OP_KIND, TIER_OP_WORDS, TIER_OPS_MAX } from '../tier-wire.js';

/** Operations on the host tier that the next records carry. Drops go first: what they give back is there for the saves. */
export class TierOps {
  private readonly drops: number[] = [];
  private readonly copyOps: number[] = [];

  /** Saves and restores of the plan being made. */
  get copies(): number {
    return this.copyOps.length / TIER_OP_WORDS;
  }

  private get sentDrops(): number {
    return Math.min(this.drops.length / TIER_OP_WORDS, TIER_OPS_MAX - this.copies);
  }

  /** Words that they take behind the record. */
  get words(): number {
    return (this.sentDrops + this.copies) * TIER_OP_WORDS;
  }

  add(kind: number, slot: number, sequence: number): void {
    (kind === TIER_OP_KIND.drop ? this.drops : this.copyOps).push(kind, slot, sequence);
  }

  encode(words: Int32Array, at: number): void {
    words.set(this.drops.slice(0, this.sentDrops * TIER_OP_WORDS), at);
    words.set(this.copyOps, at + this.sentDrops * TIER_OP_WORDS);
  }

  /** Slots that the plan saves. */
  saves(): number[] {
    const slots: number[] = [];
    for (let at = 0; at < this.copyOps.length; at += TIER_OP_WORDS)
      if (this.copyOps[at + TIER_OP.kind] === TIER_OP_KIND.save) slots.push(this.copyOps[at + TIER_OP.slot]);
    return slots;
  }

  /** They are on their way; drops over the record's limit wait for the next. */
  sent(): void {
    this.drops.splice(0, this.sentDrops * TIER_OP_WORDS);
    this.copyOps.length = 0;
  }

  clear(): void {
    this.drops.length = 0;
    this.copyOps.length = 0;
  }
}
