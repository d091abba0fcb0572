/** What a saved token takes beside its keys and values: position, sequence, and the state's own framing. Derived from the state's format, with room. */
const NOTES_BYTES = 32;
/** What a first copy is expected to do in a microsecond. Chosen: a fast machine's rate, because what is not tried is not measured. */
const ASSUMED_COPY_BYTES_PER_MICRO = 10_000;
/** A copy that is refused as too slow makes the next one a little likelier. Chosen: a rate that was measured in a bad moment is forgotten after some
 *  dozens of evictions. */
const DOUBT = 0.98;
/** Computing must cost this many times what copying costs. Chosen: the copy delays others' tokens, and not each saved prefix is asked for again. */
const WORTH_FACTOR = 2;
/** Weight of the newest copy in the running average. Chosen: about the last five count. */
const NEWEST_WEIGHT = 0.2;

/** How a saved state can be used. */
export interface StateKind {
  /** Keys and values of a token. */
  cellBytes: number;
  /** What a state takes beside its tokens' cells. */
  stateBytes: number;
  /** Its end can be removed: it serves for each prefix of its tokens. Else for prompts that begin with all of them. */
  canTrim: boolean;
}

/** What it takes to copy a saved state, by measured times, and when that is less than what it spares. */
export class CopyCosts {
  /** Microseconds that this plan's copies may still take. */
  budgetMicros = Number.POSITIVE_INFINITY;
  /** Measured time of computing a prompt token; 0: not measured yet. */
  promptTokenMicros = 0;
  private readonly tokenBytes: number;
  private tokenCopyMicros: number;

  constructor(private readonly kind: StateKind) {
    this.tokenBytes = kind.cellBytes + NOTES_BYTES;
    this.tokenCopyMicros = this.tokenBytes / ASSUMED_COPY_BYTES_PER_MICRO;
  }

  /** It is known what computing a token takes. */
  get isMeasured(): boolean {
    return this.promptTokenMicros > 0;
  }

  /** Bytes of a state of `count` tokens. */
  bytesOf(count: number): number {
    return count * this.tokenBytes + this.kind.stateBytes;
  }

  /** A state of `count` tokens in tokens' worth of bytes: a copy takes as long for what it has beside its cells. */
  private weight(count: number): number {
    return count + this.kind.stateBytes / this.tokenBytes;
  }

  private micros(count: number): number {
    return this.weight(count) * this.tokenCopyMicros;
  }

  /** `gained` tokens need not be computed for `copies` copies of `count` tokens, and `moreMicros` of other work. */
  isWorthCopying(gained: number, count: number, copies = 1, moreMicros = 0): boolean {
    if (this.promptTokenMicros === 0) return true;
    return gained * this.promptTokenMicros >= WORTH_FACTOR * (copies * this.micros(count) + moreMicros);
  }

  /** A copy of `count` tokens keeps the step short enough for those that wait for its end. */
  fitsStep(count: number): boolean {
    return this.micros(count) <= this.budgetMicros;
  }

  /** A copy of `count` tokens is in the plan. */
  spend(count: number): void {
    this.budgetMicros -= this.micros(count);
  }

  /** A copy was refused as too slow. */
  doubt(): void {
    this.tokenCopyMicros *= DOUBT;
  }

  /** `copies` copies of `count` tokens together took so long. */
  copied(copies: number, count: number, micros: number): void {
    const tokens = count + copies * this.weight(0);
    if (tokens > 0 && micros > 0) this.tokenCopyMicros += (micros / tokens - this.tokenCopyMicros) * NEWEST_WEIGHT;
  }
}
