/** The model of a plan: its shape from the header of its file, here or on the Hub. Weights are never read. */
import { closeSync, fstatSync, openSync, readSync } from 'node:fs';
import { basename, resolve } from 'node:path';
import { type ByteSource, GgufFormatError } from '../../shared/memory/gguf-cursor.js';
import { type GgufHeader, readGgufHeader } from '../../shared/memory/gguf-header.js';
import { type ModelShape, shapeOfHeader } from '../../shared/memory/model-shape.js';
import { checkGgufFile } from '../models/gguf-file.js';
import { ModelError } from '../models/model-error.js';
import { resolveModel } from '../models/resolve-model.js';
import { CliError, EXIT_FAILED } from './cli-error.js';
import type { Environment } from './parse.js';

export interface PlanModelFile {
  /** For people: a built-in name, a Hub name, or the file's. */
  name: string;
  /** null: only its header is known. */
  path: string | null;
  shape: ModelShape;
}

const SPLIT = /-(\d{5})-of-(\d{5})\.gguf$/i;

/**
 * The model that `text` names. One that is not downloaded is read from the Hub as far as its header goes.
 * @throws ModelError, CliError: one line each.
 */
export async function planModel(text: string, env: Environment): Promise<PlanModelFile> {
  const stored = await storedModel(text, env);
  if (stored !== null) return stored;
  const { readRemoteShape } = await import('./plan-remote-header.js');
  return { name: text, path: null, shape: await readRemoteShape(text, env) };
}

/** The same of a model that is here; null: it is not downloaded. @throws ModelError, CliError. */
export async function storedModel(text: string, env: Environment): Promise<(PlanModelFile & { path: string }) | null> {
  const path = await storedPath(text, env);
  if (path === null) return null;
  const isName = resolve(text) !== path;
  return { name: isName ? text : basename(path), path, shape: await readFileShape(path) };
}

/** Where the model lies on this machine; null: nowhere yet. @throws ModelError for a name or file that cannot be right. */
async function storedPath(text: string, env: Environment): Promise<string | null> {
  try {
    return await resolveModel(text, { env: { ...env, PLIMSOLL_OFFLINE: '1' } });
  } catch (error) {
    if (error instanceof ModelError && error.code === 'offline') return null;
    throw error;
  }
}

/** Of a file, or of all parts of a split one. @throws ModelError, CliError. */
export async function readFileShape(path: string): Promise<ModelShape> {
  const parts = partsOf(path);
  let weightsBytes = 0;
  let first: GgufHeader | null = null;
  for (const part of parts) {
    await checkGgufFile(part);
    const { header, sizeBytes } = readHeaderOf(part);
    first ??= header;
    weightsBytes += header.tensorBytes ?? sizeBytes - header.headerBytes;
  }
  return asShape(path, first as GgufHeader, weightsBytes);
}

/** Words for a header that lacks what a plan needs. */
export function asShape(name: string, header: GgufHeader, weightsBytes: number): ModelShape {
  try {
    return shapeOfHeader(header, weightsBytes);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    throw new CliError(EXIT_FAILED, `${name} cannot be planned for: ${error.message}`);
  }
}

/** @throws CliError where `path` is a later part. */
function partsOf(path: string): string[] {
  const split = SPLIT.exec(path);
  if (split === null) return [path];
  const [ending, index, count] = split;
  if (Number(index) !== 1) {
    throw new CliError(EXIT_FAILED, `${path} is part ${Number(index)} of ${Number(count)}: name the first`);
  }
  const stem = path.slice(0, -ending.length);
  return Array.from({ length: Number(count) }, (_, i) => `${stem}-${String(i + 1).padStart(5, '0')}-of-${count}.gguf`);
}

function readHeaderOf(path: string): { header: GgufHeader; sizeBytes: number } {
  const file = openSync(path, 'r');
  try {
    const source = new FileSource(file);
    return { header: readGgufHeader(source), sizeBytes: source.sizeBytes };
  } catch (error) {
    if (!(error instanceof GgufFormatError)) throw error;
    throw new CliError(EXIT_FAILED, `${path} is damaged: ${error.message}`);
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
