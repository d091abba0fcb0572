import { assertBoundaries } from '../submit-wire.js';
import { PromptLookup } from './prompt-lookup.js';

/** One request as the scheduler sees it: tokens that chase `tokenCount`. No separate prefill and decode modes. */
export type RequestPhase = 'waiting' | 'running' | 'over';

export interface RequestSpec {
  id: number;
  promptTokens: Int32Array;
  /** Encoded sampling block (sampling-wire.ts). */
  sampling: Int32Array;
  maxTokens: number;
  penaltyLastTokens: number;
  /** Lower runs first. */
  priority: number;
  cacheSalt: number;
  usesPrefixCache: boolean;
  /** Leading tokens of the prompt, ascending, at which others may branch off it: ends of its messages. */
  boundaries: readonly number[];
  /** Drafts may be tried on it. */
  allowsDrafts: boolean;
  arrivedAtMs: number;
  /** Longest time in the waiting queue before the request is refused, ms. */
  maxWaitMs: number;
}

const NO_SEQUENCE = -1;

export class Request {
  phase: RequestPhase = 'waiting';
  sequence = NO_SEQUENCE;
  /** Prompt, then every sampled token that is known. */
  tokens: Int32Array;
  /** How many of `tokens` are known. */
  knownCount: number;
  /** Known tokens plus placeholders: samples planned whose value has not come back. */
  tokenCount: number;
  /** Tokens whose cells are computed or planned to be, by the records in flight. */
  computedCount = 0;
  /** Tokens computed by the records before the one being planned: copies run before its decode, so no more can be copied. */
  sharableCount = 0;
  /** Records in flight that carry a segment of this request. */
  pendingSteps = 0;
  /** Its last token was an end of generation or the last of maxTokens: that token has no cell, and nothing after it will. */
  ended = false;
  /** Its sequence has no sampler yet: the next record with a segment of it must carry its start. */
  needsStart = false;
  /** Its prefix is on its way from the host tier: nothing of it is computed, and nobody copies from it, before the record comes back. */
  isRestoring = false;
  /** Boundaries ahead at which its prefill stops for a checkpoint, ascending. */
  checkpoints: number[] = [];
  /** Main was told that it left the queue. */
  announced = false;
  /** Order of the last prefill chunk: the longest-unserved long prompt goes first. */
  lastServed = 0;
  /** Requests behind it in the queue that were admitted before it (cached-first.ts). */
  overtakenCount = 0;
  /** When it (last) joined the queue. */
  queuedAtMs: number;
  /** Consecutive engine failures while it ran. */
  failures = 0;
  /** Order of admission: the latest is the cheapest victim. */
  admittedOrder = 0;
  /** Drafts in flight: cells behind `computedCount`, of which its result says how many stay. Nothing is planned for it meanwhile. */
  draftCount = 0;
  readonly lookup = new PromptLookup();
  /** Its prefill has waited for answers beside it (answers-first.ts): so long, and, while it waits, since when. */
  private heldBeforeMs = 0;
  private heldSinceMs: number | null = null;

  constructor(readonly spec: RequestSpec) {
    if (spec.promptTokens.length === 0) throw new RangeError('a prompt has at least one token');
    if (spec.maxTokens < 1) throw new RangeError('maxTokens is at least 1');
    assertBoundaries(spec.boundaries, spec.promptTokens.length);
    this.tokens = spec.promptTokens;
    this.knownCount = spec.promptTokens.length;
    this.tokenCount = this.knownCount;
    this.queuedAtMs = spec.arrivedAtMs;
  }

  get id(): number {
    return this.spec.id;
  }

  get promptCount(): number {
    return this.spec.promptTokens.length;
  }

  /** Samples planned so far, known or not. */
  get plannedOutputs(): number {
    return this.tokenCount - this.promptCount;
  }

  /** Tokens still to be computed. */
  get remaining(): number {
    return this.tokenCount - this.computedCount;
  }

  /** All but the newest token computed, and a sample planned before: one token a step from here. */
  get isDecoding(): boolean {
    return this.remaining === 1 && this.tokenCount > this.promptCount;
  }

  /** Its prefill waits from here on. */
  hold(nowMs: number): void {
    this.heldSinceMs ??= nowMs;
  }

  /** It goes on. */
  release(nowMs: number): void {
    this.heldBeforeMs = this.heldMs(nowMs);
    this.heldSinceMs = null;
  }

  /** How long it has waited in all, ms. */
  heldMs(nowMs: number): number {
    return this.heldBeforeMs + (this.heldSinceMs === null ? 0 : nowMs - this.heldSinceMs);
  }

  /** Its step has sampled: all known tokens but the newest have their cells. Returns how many drafts were right. */
  endDrafts(): number {
    const accepted = this.knownCount - 1 - this.computedCount;
    if (accepted < 0 || accepted > this.draftCount)
      throw new Error(`request ${this.id}: ${accepted} of ${this.draftCount} drafts were right`);
    this.computedCount += accepted;
    this.draftCount = 0;
    return accepted;
  }

  /** Records `token` as the next known one. */
  append(token: number): void {
    if (this.knownCount >= this.tokenCount) throw new Error(`request ${this.id} got a token that was never planned`);
    if (this.knownCount === this.tokens.length) {
      const limit = this.promptCount + this.spec.maxTokens;
      const grown = new Int32Array(Math.min(limit, Math.max(64, this.tokens.length * 2)));
      grown.set(this.tokens);
      this.tokens = grown;
    }
    this.tokens[this.knownCount++] = token;
  }

  /** Runs from here on, in `sequence`, with its first `cached` tokens computed already. */
  admit(sequence: number, cached: number, order: number): void {
    this.phase = 'running';
    this.sequence = sequence;
    this.computedCount = cached;
    this.sharableCount = cached;
    this.admittedOrder = order;
    this.needsStart = true;
  }

  /** Gives up its cells and placeholders: it will be computed again from its known tokens. */
  forgetCells(): void {
    this.sequence = NO_SEQUENCE;
    this.isRestoring = false;
    this.checkpoints = [];
    this.computedCount = 0;
    this.draftCount = 0;
    this.tokenCount = this.knownCount;
  }
}
