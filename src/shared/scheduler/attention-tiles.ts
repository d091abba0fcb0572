import type { ContextSpec } from '../engine.js';
import type { DeviceMemory } from '../memory/headroom.js';

/**
 * A CPU's flash attention takes a sequence's new tokens in tiles; fewer than a tile are computed one by one, each at 2 to 5 times the
 * price for every cell that it looks at. Whoever cuts a prompt in pieces should leave no fragments.
 */

/** Derived from the engine's kernel: tokens of a tile. */
export const TILE_TOKENS = 64;
/** From here on a whole tile costs no more than a fragment. Measured with some 1,000 cells before them: 35 tokens of a model with 9 heads of
 *  64 cost as much as 64, 16 of one with 16 heads of 128. */
const WORTH_A_TILE_TOKENS = 40;
/** With fewer cells before them the weights cost more than the attention. Measured with the same two models. */
const WORTH_A_TILE_CELLS = 512;

/** Tokens of a tile for a context of `spec`; 0: it has none. Its kernel is for keys and values of 16 and 32 bits. */
export function tileTokensOf(memory: DeviceMemory, spec: ContextSpec): number {
  const { keyType, valueType, flashAttention } = spec;
  const hasKernel = (keyType === 'f16' || keyType === 'f32') && keyType === valueType && flashAttention !== 'off';
  return memory === 'host' && hasKernel ? TILE_TOKENS : 0;
}

/** `chunkTokens` in whole tiles, if it has any. */
export function inWholeTiles(chunkTokens: number, tileTokens: number): number {
  return tileTokens > 0 && chunkTokens > tileTokens ? chunkTokens - (chunkTokens % tileTokens) : chunkTokens;
}

/** How many of `remaining` tokens to compute now where `count` could be: so many that a fragment is left for later only where there is no other way. */
export function withoutFragments(count: number, remaining: number, tileTokens: number): number {
  const left = remaining - count;
  if (left === 0 || left >= tileTokens) return count;
  const fewer = remaining - tileTokens;
  return fewer >= tileTokens ? fewer : count;
}

/** How much of a cached prefix of `cached` tokens to take for a prompt with `missing` more: a little less where the rest is then a tile. */
export function cachedBesideTile(cached: number, missing: number, tileTokens: number): number {
  const isFragment = missing >= WORTH_A_TILE_TOKENS && missing < tileTokens;
  return isFragment && cached >= WORTH_A_TILE_CELLS ? cached + missing - tileTokens : cached;
}
