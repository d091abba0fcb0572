/** The model of a plan: its shape from the header of its file, here or on the Hub. Weights are never read. */
import { basename, resolve } from 'node:path';
import { GgufFormatError } from '../../shared/memory/gguf-cursor.js';
import type { GgufHeader } from '../../shared/memory/gguf-header.js';
import { type ModelShape, shapeOfHeader } from '../../shared/memory/model-shape.js';
import { modelParts, readModelHeader } from '../../workers/model-file.js';
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
  const { paths, index } = modelParts(path);
  if (index !== 1) throw new CliError(EXIT_FAILED, `${path} is part ${index} of ${paths.length}: name the first`);
  for (const part of paths) await checkGgufFile(part);
  try {
    const { header, weightsBytes } = readModelHeader(paths);
    return asShape(path, header, weightsBytes);
  } catch (error) {
    if (!(error instanceof GgufFormatError)) throw error;
    throw new CliError(EXIT_FAILED, `${path} is damaged: ${error.message}`);
  }
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
