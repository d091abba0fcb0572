import { PlimsollError } from '../../shared/errors.js';
import type { Pipeline } from '../pipeline-types.js';

/** Up to this part of all places anybody may take any: only beyond it does one key's load stand in another's way. Chosen. */
const FREE_PART = 1 / 2;

/**
 * The places that each API key holds, running and waiting. With several keys none may fill the server: once it is half full, a key that
 * already holds its equal part gets no more, so there is always room for the others.
 */
export class KeyShares {
  private readonly held: number[];

  constructor(private readonly keyCount: number) {
    this.held = new Array<number>(keyCount).fill(0);
  }

  /**
   * Takes a place for each of `count` choices. The result gives them back, once.
   * @throws PlimsollError rate_limited.
   */
  take(keyIndex: number, count: number, pipeline: Pick<Pipeline, 'activeCount' | 'activeMax'>): () => void {
    if (this.keyCount < 2) return () => {};
    const { activeCount, activeMax } = pipeline;
    const share = Math.max(1, Math.floor(activeMax / this.keyCount));
    const held = this.held[keyIndex];
    if (held + count > share && activeCount + count > activeMax * FREE_PART) {
      throw new PlimsollError(
        'rate_limited',
        `This API key has ${held} of ${activeCount} requests that run or wait, and its share of a busy server is ${share}; try again later.`,
      );
    }
    this.held[keyIndex] += count;
    let isHeld = true;
    return () => {
      if (isHeld) this.held[keyIndex] -= count;
      isHeld = false;
    };
  }
}
