/**
 * What a text says next when it repeats itself: the tokens that followed the last time its end stood somewhere in it. Pure; one object a request.
 *
 * It watches whether it was right at every token that becomes known, drafted or not, so its rates cost no step.
 */

/** Shorter ends are found everywhere and foretell nothing. Chosen. */
const AGREEMENT_MIN_TOKENS = 2;
/** Longer agreements are not told apart. Chosen. */
const AGREEMENT_MAX_TOKENS = 8;
/** Tokens searched, from the end. Chosen: bounds the search to some 20 µs. */
const SEARCH_MAX_TOKENS = 16_384;
/** More tokens than this at once came while nobody looked: the search begins anew. Chosen: above what one step can bring. */
const READ_MAX_TOKENS = 32;
/** Weight of the newest token in a rate. Chosen: about the last ten decide. */
const NEWEST_WEIGHT = 0.1;
/** How often a text goes on as it did after so many tokens of agreement, before it was watched. Chosen: below what copies of lists and code show. */
const RATES_BEFORE = [0, 0, 0.2, 0.35, 0.5, 0.6, 0.7, 0.75, 0.8] as const;

export class PromptLookup {
  /** Share of right guesses by tokens of agreement. */
  private readonly rates = Float64Array.from(RATES_BEFORE);
  private readCount = 0;
  /** Index of the token that is expected to come next; −1: none is. */
  private expected = -1;
  private agreement = 0;

  /** Takes in the first `count` of `tokens`, of which it knows a part already. */
  read(tokens: Int32Array, count: number): void {
    if (this.readCount === 0 || count - this.readCount > READ_MAX_TOKENS) {
      this.readCount = count;
      this.search(tokens);
      return;
    }
    while (this.readCount < count) this.readOne(tokens);
  }

  /** Probabilities that the first, the first two, ... of `most` drafts are all right, added up one by one; empty: nothing is expected. */
  expectation(most: number): number[] {
    const sums: number[] = [];
    if (this.expected < 0) return sums;
    let chain = 1;
    let sum = 0;
    for (let i = 0; i < most; i++) {
      chain *= this.rates[Math.min(this.agreement + i, AGREEMENT_MAX_TOKENS)];
      sum += chain;
      sums.push(sum);
    }
    return sums;
  }

  /** The `count` tokens that are expected next. A text that has just begun to repeat is expected to go on repeating. */
  drafts(tokens: Int32Array, count: number): Int32Array {
    const { expected, readCount } = this;
    if (expected < 0) return new Int32Array(0);
    const period = readCount - expected;
    return Int32Array.from({ length: count }, (_, i) => tokens[expected + (i % period)]);
  }

  private readOne(tokens: Int32Array): void {
    const at = this.readCount++;
    if (this.expected < 0) {
      this.search(tokens);
      return;
    }
    const isRight = tokens[this.expected] === tokens[at];
    this.rates[this.agreement] += ((isRight ? 1 : 0) - this.rates[this.agreement]) * NEWEST_WEIGHT;
    if (!isRight) {
      this.search(tokens);
      return;
    }
    this.expected++;
    this.agreement = Math.min(this.agreement + 1, AGREEMENT_MAX_TOKENS);
  }

  /** The last place where the end stood before, of the longest agreement among those of at least three tokens, else of two. */
  private search(tokens: Int32Array): void {
    const end = this.readCount;
    const first = Math.max(AGREEMENT_MIN_TOKENS - 1, end - SEARCH_MAX_TOKENS);
    this.expected = -1;
    this.agreement = 0;
    if (end <= AGREEMENT_MIN_TOKENS) return;
    const newest = tokens[end - 1];
    for (let at = tokens.lastIndexOf(newest, end - 2); at >= first; at = tokens.lastIndexOf(newest, at - 1)) {
      const agreement = commonEnd(tokens, at, end - 1);
      if (agreement < AGREEMENT_MIN_TOKENS || agreement <= this.agreement) continue;
      this.expected = at + 1;
      this.agreement = agreement;
      if (agreement > AGREEMENT_MIN_TOKENS) return;
    }
  }
}

/** Tokens that are the same before and at `a` as before and at `b` > `a`, at most AGREEMENT_MAX_TOKENS. */
function commonEnd(tokens: Int32Array, a: number, b: number): number {
  const most = Math.min(AGREEMENT_MAX_TOKENS, a + 1);
  let count = 0;
  while (count < most && tokens[a - count] === tokens[b - count]) count++;
  return count;
}
