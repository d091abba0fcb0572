/** The models that tests run on, as `make test-models` (scripts/fetch-test-models.mjs) puts them into the cache folder. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { cacheFolder } from '../../src/main/models/cache-folder.js';

/**
 * - `smollm2`, `smollm2-q4_0`: SmolLM2 135M Instruct, Q4_1 as published and Q4_0 made from it (fast matrix kernels).
 * - `gemma3-270m`: sliding windows, 262k vocabulary, a base model without a chat template.
 * - `minilm`: BERT embeddings, 384 dimensions, 512 tokens at most.
 * - `tiny-*`: random weights behind real vocabularies; `tiny-qwen3`, `tiny-moe` (8 experts, 2 used) and `fat-kv` answer in words,
 *   `tiny-mamba` (recurrent) and `tiny-hybrid` (attention and short convolutions) in any tokens, invalid UTF-8 included.
 * - `fat-kv`: 128 kB of KV cache a token at f16.
 */
export const TEST_MODELS = [
  'smollm2',
  'smollm2-q4_0',
  'gemma3-270m',
  'minilm',
  'tiny-qwen3',
  'tiny-moe',
  'tiny-mamba',
  'tiny-hybrid',
  'fat-kv',
] as const;

export type TestModelName = (typeof TEST_MODELS)[number];

/** The path of a test model, or null where it was not fetched. */
export function testModel(name: TestModelName): string | null {
  const path = join(cacheFolder(), 'test-models', `${name}.gguf`);
  return existsSync(path) ? path : null;
}

/** The path of a test model. @throws where it was not fetched: a test that skips silently proves nothing. */
export function requireTestModel(name: TestModelName): string {
  const path = testModel(name);
  if (path === null) throw new Error(`the test model ${name} is not there: make test-models fetches it`);
  return path;
}
