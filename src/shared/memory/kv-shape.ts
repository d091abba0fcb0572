import type { KvType } from '../engine.js';

/** Bytes of one cached element. Derived: quantized types store blocks of 32 with a 2-byte scale. */
export const KV_ELEMENT_BYTES: Readonly<Record<KvType, number>> = {
  f32: 4,
  f16: 2,
  bf16: 2,
  q8_0: 34 / 32,
  q4_0: 18 / 32,
};

/** Attention layers of a model that cache keys and values. */
export interface KvShape {
  /** KV heads of each caching layer. */
  kvHeads: readonly number[];
  keyLength: number;
  valueLength: number;
}

/** KV bytes that one token takes in all layers together: layers × heads × (key + value) × element size. */
export function kvBytesPerToken(shape: KvShape, keyType: KvType, valueType: KvType): number {
  const heads = shape.kvHeads.reduce((sum, count) => sum + count, 0);
  const key = shape.keyLength * KV_ELEMENT_BYTES[keyType];
  const value = shape.valueLength * KV_ELEMENT_BYTES[valueType];
  return heads * (key + value);
}

/** Cells as the engine rounds them. */
export function paddedCells(tokens: number, paddingTokens: number): number {
  return Math.ceil(tokens / paddingTokens) * paddingTokens;
}

/** A cache that starts at `baseTokens` and doubles until it holds `contextTokens`. */
export function doublingSpan(contextTokens: number, baseTokens: number): number {
  let span = baseTokens;
  while (span < contextTokens) span *= 2;
  return span;
}
