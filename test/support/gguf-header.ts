/** The smallest GGUF file that a plan can be made from: a header without weights behind it. */

export interface TinyHeader {
  layers?: number;
  /** Tokens of the vocabulary, each a text of 8 bytes: they make the header long. */
  vocabularySize?: number;
  trainContextTokens?: number;
  /** Elements of its one tensor, F16. */
  tensorElements?: number;
  architecture?: string | null;
}

export function tinyHeader(shape: TinyHeader = {}): Buffer {
  const { layers = 4, vocabularySize = 100, trainContextTokens = 4096, tensorElements = 1_000_000 } = shape;
  const architecture = shape.architecture === undefined ? 'llama' : shape.architecture;
  const numbers: Array<[string, number]> = [
    ['block_count', layers],
    ['embedding_length', 256],
    ['feed_forward_length', 512],
    ['attention.head_count', 4],
    ['attention.head_count_kv', 2],
    ['context_length', trainContextTokens],
  ];
  const pairs = [
    ...(architecture === null ? [] : [Buffer.concat([text('general.architecture'), u32(8), text(architecture)])]),
    ...numbers.map(([key, value]) => Buffer.concat([text(`llama.${key}`), u32(4), u32(value)])),
    Buffer.concat([
      text('tokenizer.ggml.tokens'),
      ...[u32(9), u32(8), u64(vocabularySize)],
      ...Array.from({ length: vocabularySize }, (_, i) => text(String(i).padStart(8, 't'))),
    ]),
  ];
  const tensor = [text('token_embd.weight'), u32(1), u64(tensorElements), u32(1), u64(0)];
  return Buffer.concat([u32(0x46554747), u32(3), u64(1), u64(pairs.length), ...pairs, ...tensor]);
}

function u32(value: number): Buffer {
  const part = Buffer.alloc(4);
  part.writeUInt32LE(value);
  return part;
}

function u64(value: number): Buffer {
  const part = Buffer.alloc(8);
  part.writeBigUInt64LE(BigInt(value));
  return part;
}

function text(value: string): Buffer {
  return Buffer.concat([u64(Buffer.byteLength(value)), Buffer.from(value)]);
}
