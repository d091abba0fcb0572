/** A model's file as far as a plan needs it: how many bytes, and the header. Weights are never read. */
import { closeSync, fstatSync, openSync, readSync, statSync } from 'node:fs';
import type { ByteSource } from '../shared/memory/gguf-cursor.js';
import { type GgufHeader, readGgufDescription, readGgufHeader } from '../shared/memory/gguf-header.js';
import { shapeOf } from '../shared/memory/model-shape.js';

export interface ModelHeader {
  /** Of the first part: the others repeat it. */
  header: GgufHeader;
  /** Bytes of the tensors of all parts. */
  weightsBytes: number;
}

const SPLIT = /-(\d{5})-of-(\d{5})\.gguf$/i;

/** The files that make up the model at `path`, and which of them `path` is, from 1. */
export function modelParts(path: string): { paths: string[]; index: number } {
  const split = SPLIT.exec(path);
  if (split === null) return { paths: [path], index: 1 };
  const [ending, index, count] = split;
  const stem = path.slice(0, -ending.length);
  const paths = Array.from(
    { length: Number(count) },
    (_, i) => `${stem}-${String(i + 1).padStart(5, '0')}-of-${count}.gguf`,
  );
  return { paths, index: Number(index) };
}

/** @throws the system's error for a part that is not there. */
export function filesBytes(paths: readonly string[]): number {
  return paths.reduce((sum, path) => sum + statSync(path).size, 0);
}

/** @throws GgufFormatError, the system's error. */
export function readModelHeader(paths: readonly string[]): ModelHeader {
  let first: GgufHeader | null = null;
  let weightsBytes = 0;
  for (const path of paths) {
    const { header, sizeBytes } = readHeaderOf(path);
    first ??= header;
    weightsBytes += header.tensorBytes ?? sizeBytes - header.headerBytes;
  }
  return { header: first as GgufHeader, weightsBytes };
}

/** Numbers in a key and in a value of the model at `path`; null where the file does not say: the engine will explain what is wrong with it. */
export function headLengthsOf(path: string): number[] | null {
  try {
    const metadata = withFile(path, readGgufDescription);
    const { keyLength, valueLength } = shapeOf((key) => metadata.get(key), 0, 0);
    return [keyLength, valueLength];
  } catch {
    return null;
  }
}

function readHeaderOf(path: string): { header: GgufHeader; sizeBytes: number } {
  return withFile(path, (source) => ({ header: readGgufHeader(source), sizeBytes: source.sizeBytes }));
}

function withFile<T>(path: string, read: (source: ByteSource) => T): T {
  const file = openSync(path, 'r');
  try {
    return read(new FileSource(file));
  } finally {
    closeSync(file);
  }
}

class FileSource implements ByteSource {
  readonly sizeBytes: number;

  constructor(private readonly file: number) {
    this.sizeBytes = fstatSync(file).size;
  }

  read(offset: number, lengthBytes: number): Uint8Array {
    const bytes = new Uint8Array(Math.max(0, Math.min(lengthBytes, this.sizeBytes - offset)));
    let filled = 0;
    while (filled < bytes.length) {
      const got = readSync(this.file, bytes, filled, bytes.length - filled, offset + filled);
      if (got === 0) break;
      filled += got;
    }
    return bytes.subarray(0, filled);
  }
}
