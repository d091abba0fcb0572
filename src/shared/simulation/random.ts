/** A seeded generator: the same seed gives the same simulation on every machine. */
export class SeededRandom {
  private state: number;

  constructor(seed: number) {
    this.state = scramble(seed + 1);
  }

  /** 32 random bits. A counter that steps by an odd constant, scrambled: full period, and no two seeds run in step. */
  bits(): number {
    this.state = (this.state + 0x6d2b79f5) | 0;
    return scramble(this.state) >>> 0;
  }

  /** From 0 up to, not including, 1. */
  next(): number {
    return this.bits() / 2 ** 32;
  }

  /** A whole number of the range, both ends included. */
  within([least, most]: readonly [number, number]): number {
    return least + Math.floor(this.next() * (most - least + 1));
  }

  /** A waiting time of that mean between arrivals that know nothing of each other. */
  exponential(mean: number): number {
    return -Math.log(1 - this.next()) * mean;
  }
}

/** Mixes the bits of `value` so that near values become far ones. Result: 32 bits, signed. */
export function scramble(value: number): number {
  let bits = value | 0;
  bits = Math.imul(bits ^ (bits >>> 16), 0x45d9f3b);
  bits = Math.imul(bits ^ (bits >>> 15), 0x2c1b3c6d);
  return bits ^ (bits >>> 16);
}
