import { type ByteSource, GgufCursor, GgufFormatError } from './gguf-cursor.js';
import { tensorBytes } from './gguf-tensor-types.js';

export type GgufScalar = number | string | boolean;

export interface GgufHeader {
  version: number;
  /** Scalars, and arrays of at most ARRAY_KEPT_MAX numbers or booleans. */
  metadata: Metadata;
  /** Lengths of all arrays, kept or not. */
  arrayLengths: ReadonlyMap<string, number>;
  tensorCount: number;
  /** Bytes of this file's tensors; null when it has a type that is not known here. */
  tensorBytes: number | null;
  headerBytes: number;
}

/** Limits on what a header may hold. Chosen: several times what the largest published models have. */
const HEADER_BYTES_MAX = 256 * 1024 * 1024;
const PAIRS_MAX = 65_536;
const TENSORS_MAX = 1_000_000;
const KEY_BYTES_MAX = 65_535;
const TEXT_BYTES_MAX = 16 * 1024 * 1024;
const DIMENSIONS_MAX = 8;
/** Per-layer arrays have a number a layer; vocabularies, which have hundreds of thousands, are counted and skipped. */
const ARRAY_KEPT_MAX = 4096;

const MAGIC = 0x46554747;
const TYPE_BOOL = 7;
const TYPE_TEXT = 8;
const TYPE_ARRAY = 9;

const NUMBERS: Readonly<Record<number, { bytes: number; get: (view: DataView, at: number) => number }>> = {
  0: { bytes: 1, get: (view, at) => view.getUint8(at) },
  1: { bytes: 1, get: (view, at) => view.getInt8(at) },
  2: { bytes: 2, get: (view, at) => view.getUint16(at, true) },
  3: { bytes: 2, get: (view, at) => view.getInt16(at, true) },
  4: { bytes: 4, get: (view, at) => view.getUint32(at, true) },
  5: { bytes: 4, get: (view, at) => view.getInt32(at, true) },
  6: { bytes: 4, get: (view, at) => view.getFloat32(at, true) },
  10: { bytes: 8, get: (view, at) => Number(view.getBigUint64(at, true)) },
  11: { bytes: 8, get: (view, at) => Number(view.getBigInt64(at, true)) },
  12: { bytes: 8, get: (view, at) => view.getFloat64(at, true) },
};

type Metadata = ReadonlyMap<string, GgufScalar | readonly number[]>;

/** Reads a GGUF file's header: its metadata and the size of its tensors, never their data. @throws GgufFormatError. */
export function readGgufHeader(source: ByteSource): GgufHeader {
  const { cursor, version, tensorCount, pairCount } = open(source);
  const metadata = new Map<string, GgufScalar | readonly number[]>();
  const arrayLengths = new Map<string, number>();
  for (let i = 0; i < pairCount; i++) readPair(cursor, cursor.text(KEY_BYTES_MAX), metadata, arrayLengths);
  const bytes = readTensors(cursor, tensorCount);
  return { version, metadata, arrayLengths, tensorCount, tensorBytes: bytes, headerBytes: cursor.offset };
}

/**
 * What describes the model, of a file's metadata. Most files have it before the vocabulary, which takes most of the time and is then left
 * out. @throws GgufFormatError.
 */
export function readGgufDescription(source: ByteSource): Metadata {
  const { cursor, pairCount } = open(source);
  const metadata = new Map<string, GgufScalar | readonly number[]>();
  for (let i = 0; i < pairCount; i++) {
    const key = cursor.text(KEY_BYTES_MAX);
    if (key.startsWith('tokenizer.') && metadata.has(`${metadata.get('general.architecture')}.block_count`)) break;
    readPair(cursor, key, metadata, new Map());
  }
  return metadata;
}

function open(source: ByteSource): { cursor: GgufCursor; version: number; tensorCount: number; pairCount: number } {
  const cursor = new GgufCursor(source, HEADER_BYTES_MAX);
  if (source.sizeBytes < 24 || cursor.u32() !== MAGIC) throw new GgufFormatError('not a GGUF file');
  const version = cursor.u32();
  if (version !== 2 && version !== 3) throw new GgufFormatError(`GGUF version ${version} is not supported`);
  const tensorCount = counted(cursor.u64(), TENSORS_MAX, 'tensors');
  return { cursor, version, tensorCount, pairCount: counted(cursor.u64(), PAIRS_MAX, 'metadata pairs') };
}

function readPair(
  cursor: GgufCursor,
  key: string,
  metadata: Map<string, GgufScalar | readonly number[]>,
  arrayLengths: Map<string, number>,
): void {
  const type = cursor.u32();
  if (type !== TYPE_ARRAY) metadata.set(key, scalar(cursor, type));
  else readArray(cursor, key, metadata, arrayLengths);
}

function counted(count: number, most: number, what: string): number {
  if (count > most) throw new GgufFormatError(`${count} ${what}, more than ${most}`);
  return count;
}

function scalar(cursor: GgufCursor, type: number): GgufScalar {
  if (type === TYPE_TEXT) return cursor.text(TEXT_BYTES_MAX);
  if (type === TYPE_BOOL) return cursor.u8() !== 0;
  return readNumber(cursor, type);
}

function readNumber(cursor: GgufCursor, type: number): number {
  const kind = Object.hasOwn(NUMBERS, type) ? NUMBERS[type] : undefined;
  if (kind === undefined) throw new GgufFormatError(`a value of unknown type ${type} at byte ${cursor.offset}`);
  return cursor.take(kind.bytes, kind.get);
}

function readArray(
  cursor: GgufCursor,
  key: string,
  metadata: Map<string, GgufScalar | readonly number[]>,
  arrayLengths: Map<string, number>,
): void {
  const type = cursor.u32();
  const count = cursor.u64();
  arrayLengths.set(key, count);
  if (type === TYPE_ARRAY) throw new GgufFormatError(`${key}: arrays of arrays are not supported`);
  if (type === TYPE_TEXT) {
    // Each text takes at least its length word, so the header's limit bounds this loop whatever `count` claims.
    for (let i = 0; i < count; i++) cursor.skip(cursor.u64());
    return;
  }
  if (count > ARRAY_KEPT_MAX) {
    const kind = Object.hasOwn(NUMBERS, type) ? NUMBERS[type].bytes : type === TYPE_BOOL ? 1 : 0;
    if (kind === 0) throw new GgufFormatError(`${key}: an array of unknown type ${type}`);
    cursor.skip(count * kind);
    return;
  }
  const values: number[] = [];
  for (let i = 0; i < count; i++) values.push(type === TYPE_BOOL ? cursor.u8() : readNumber(cursor, type));
  metadata.set(key, values);
}

function readTensors(cursor: GgufCursor, tensorCount: number): number | null {
  let total: number | null = 0;
  for (let i = 0; i < tensorCount; i++) {
    cursor.text(KEY_BYTES_MAX);
    const dimensions = cursor.u32();
    if (dimensions > DIMENSIONS_MAX) throw new GgufFormatError(`a tensor of ${dimensions} dimensions`);
    let elements = 1;
    for (let d = 0; d < dimensions; d++) elements *= cursor.u64();
    const bytes = tensorBytes(cursor.u32(), elements);
    cursor.skip(8);
    total = total === null || bytes === null ? null : total + bytes;
  }
  return total;
}
