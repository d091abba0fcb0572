import fc from 'fast-check';
import t from 'tap';
import { type ByteSource, GgufFormatError } from '../../src/shared/memory/gguf-cursor.js';
import { readGgufDescription, readGgufHeader } from '../../src/shared/memory/gguf-header.js';
import { shapeOfHeader } from '../../src/shared/memory/model-shape.js';

/** Writes headers as the format has them; lengths may be overridden to lie. */
class HeaderWriter {
  private readonly parts: Buffer[] = [];

  u32(value: number): this {
    const part = Buffer.alloc(4);
    part.writeUInt32LE(value);
    this.parts.push(part);
    return this;
  }

  u64(value: bigint | number): this {
    const part = Buffer.alloc(8);
    part.writeBigUInt64LE(BigInt(value));
    this.parts.push(part);
    return this;
  }

  text(value: string): this {
    this.u64(Buffer.byteLength(value));
    this.parts.push(Buffer.from(value));
    return this;
  }

  start(tensors: bigint | number, pairs: bigint | number, version = 3): this {
    return this.u32(0x46554747).u32(version).u64(tensors).u64(pairs);
  }

  number(key: string, value: number): this {
    return this.text(key).u32(4).u32(value);
  }

  bytes(): Buffer {
    return Buffer.concat(this.parts);
  }
}

function source(bytes: Uint8Array): ByteSource & { reads: number } {
  return {
    sizeBytes: bytes.length,
    reads: 0,
    read(offset, length) {
      this.reads++;
      return bytes.subarray(offset, Math.min(offset + length, bytes.length));
    },
  };
}

function model(): Buffer {
  const header = new HeaderWriter().start(2, 9);
  header.text('general.architecture').u32(8).text('gemma3');
  header.number('gemma3.block_count', 12).number('gemma3.embedding_length', 640);
  header.number('gemma3.attention.head_count', 4).number('gemma3.attention.head_count_kv', 1);
  header.number('gemma3.attention.key_length', 256).number('gemma3.attention.sliding_window', 512);
  header.text('tokenizer.ggml.tokens').u32(9).u32(8).u64(3).text('a').text('bc').text('def');
  header.text('tokenizer.ggml.scores').u32(9).u32(6).u64(5000);
  const scores = Buffer.alloc(5000 * 4);
  const tensors = new HeaderWriter();
  tensors.text('token_embd.weight').u32(2).u64(640).u64(3).u32(2).u64(0);
  tensors.text('norm.weight').u32(1).u64(640).u32(0).u64(0);
  return Buffer.concat([header.bytes(), scores, tensors.bytes()]);
}

t.test('what describes a model is read without its vocabulary', async (t) => {
  const metadata = readGgufDescription(source(model()));
  t.equal(metadata.get('gemma3.attention.key_length'), 256);
  t.notOk([...metadata.keys()].some((key) => key.startsWith('tokenizer.')));
});

t.test('a header gives metadata, the vocabulary size and the bytes of all tensors', async (t) => {
  const from = source(model());
  const header = readGgufHeader(from);
  t.equal(header.metadata.get('gemma3.block_count'), 12);
  t.equal(header.arrayLengths.get('tokenizer.ggml.tokens'), 3);
  t.equal(header.metadata.has('tokenizer.ggml.scores'), false, 'long arrays are counted, not kept');
  t.equal(header.tensorBytes, (640 / 32) * 18 * 3 + 640 * 4);
  t.equal(header.headerBytes, from.sizeBytes);
  t.equal(from.reads, 1, 'small headers are one read');
  const shape = shapeOfHeader(header, header.tensorBytes ?? 0);
  t.match(shape, { layerCount: 12, vocabularySize: 3, keyLength: 256, valueLength: 160, slidingWindowTokens: 512 });
  t.same(shape.slidingLayers.slice(0, 7), [true, true, true, true, true, false, true]);
});

t.test('what is no model says so', async (t) => {
  t.throws(() => readGgufHeader(source(Buffer.from('<html>not found</html>, sorry'))), /not a GGUF file/);
  t.throws(() => readGgufHeader(source(Buffer.alloc(3))), /not a GGUF file/);
  t.throws(() => readGgufHeader(source(new HeaderWriter().start(0, 0, 99).bytes())), /version 99/);
  const nameless = readGgufHeader(source(new HeaderWriter().start(0, 0).bytes()));
  t.throws(() => shapeOfHeader(nameless, 0), /architecture/);
});

t.test('lies about lengths and counts are found before anything is allocated or looped over', async (t) => {
  const huge = 2n ** 62n;
  const lies: Array<[string, Buffer]> = [
    ['pairs', new HeaderWriter().start(0, huge).bytes()],
    ['pairs within a double', new HeaderWriter().start(0, 2 ** 40).bytes()],
    ['tensors', new HeaderWriter().start(2 ** 40, 0).bytes()],
    ['key length', new HeaderWriter().start(0, 1).u64(huge).bytes()],
    [
      'key length within a double',
      new HeaderWriter()
        .start(0, 1)
        .u64(2 ** 50)
        .bytes(),
    ],
    [
      'text length',
      new HeaderWriter()
        .start(0, 1)
        .text('k')
        .u32(8)
        .u64(2 ** 40)
        .bytes(),
    ],
    [
      'array count',
      new HeaderWriter()
        .start(0, 1)
        .text('k')
        .u32(9)
        .u32(4)
        .u64(2 ** 45)
        .bytes(),
    ],
    [
      'array of texts',
      new HeaderWriter()
        .start(0, 1)
        .text('k')
        .u32(9)
        .u32(8)
        .u64(2 ** 45)
        .bytes(),
    ],
    ['array of arrays', new HeaderWriter().start(0, 1).text('k').u32(9).u32(9).u64(1).bytes()],
    [
      'array of nothing',
      new HeaderWriter()
        .start(0, 1)
        .text('k')
        .u32(9)
        .u32(99)
        .u64(2 ** 45)
        .bytes(),
    ],
    ['type', new HeaderWriter().start(0, 1).text('k').u32(77).u64(0).bytes()],
    ['type of an object', new HeaderWriter().start(0, 1).text('k').u32(0xffffffff).u64(0).bytes()],
    [
      'dimensions',
      new HeaderWriter()
        .start(1, 0)
        .text('k')
        .u32(2 ** 31)
        .u64(1)
        .bytes(),
    ],
  ];
  for (const [name, bytes] of lies) t.throws(() => readGgufHeader(source(bytes)), GgufFormatError, name);
});

t.test('a file cut anywhere in its header is an error of ours, never another', async () => {
  const whole = model();
  fc.assert(
    fc.property(fc.nat(whole.length - 1), (length) => fails(whole.subarray(0, length))),
    { numRuns: 300 },
  );
});

t.test('flipped bytes give a header or an error of ours', async () => {
  const whole = model();
  const flip = fc.record({ at: fc.nat(whole.length - 1), to: fc.nat(255) });
  fc.assert(
    fc.property(fc.array(flip, { minLength: 1, maxLength: 6 }), (flips) => {
      const bytes = Buffer.from(whole);
      for (const { at, to } of flips) bytes[at] = to;
      try {
        const header = readGgufHeader(source(bytes));
        shapeOfHeader(header, header.tensorBytes ?? 0);
        return true;
      } catch (error) {
        return error instanceof GgufFormatError || error instanceof RangeError;
      }
    }),
    { numRuns: 1000 },
  );
});

function fails(bytes: Uint8Array): boolean {
  try {
    readGgufHeader(source(bytes));
    return false;
  } catch (error) {
    return error instanceof GgufFormatError;
  }
}

t.test('per-layer KV heads, shared layers and recurrent state', async (t) => {
  const header = new HeaderWriter().start(0, 7);
  header.text('general.architecture').u32(8).text('lfm2');
  header.number('lfm2.block_count', 4).number('lfm2.embedding_length', 256).number('lfm2.attention.head_count', 4);
  header.text('lfm2.attention.head_count_kv').u32(9).u32(4).u64(4).u32(0).u32(0).u32(2).u32(0);
  header.number('lfm2.shortconv.l_cache', 3).number('lfm2.context_length', 1000);
  const shape = shapeOfHeader(readGgufHeader(source(header.bytes())), 0);
  t.same(shape.kvHeads, [0, 0, 2, 0]);
  t.equal(shape.stateBytesPerSequence, 3 * 256 * 2 * 4, 'three layers with a short convolution, fp32');
});
