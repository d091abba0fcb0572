/** What a saved prefix depends on, as one hash: with any of it changed, its bytes would be nonsense, or another model's. */
import { createHash, type Hash } from 'node:crypto';
import { type FileHandle, open, stat } from 'node:fs/promises';
import path from 'node:path';
import type { Config } from '../shared/config.js';
import { findEngineFolder } from '../shared/engine-folder.js';
import { modelParts } from '../workers/model-file.js';
import type { ForwardReady } from '../workers/worker-messages.js';

/** Places that are looked at in each file, evenly over it, and bytes at each. Chosen: another training of the same shape differs everywhere, and
 *  a file of any size is looked at in some milliseconds. */
const SAMPLES = 64;
const SAMPLE_BYTES = 16 * 1024;

export interface PrefixMaker {
  config: Pick<Config, 'gpuLayers' | 'devices'>;
  modelPath: string;
  ready: Pick<ForwardReady, 'plan' | 'model'>;
  /** The engine is a test's. */
  isFake: boolean;
}

/** @throws Error of the file system: without knowing the model nothing can be kept for it. */
export async function prefixIdentity({ config, modelPath, ready, isFake }: PrefixMaker): Promise<string> {
  const { keyType, valueType, flashAttention } = ready.plan.spec;
  const hash = createHash('sha256');
  const facts = [
    ...[ready.model.description, ready.model.vocabularySize],
    ...[keyType, valueType, flashAttention],
    ...[process.platform, process.arch, [...config.devices].sort(), config.gpuLayers],
  ];
  hash.update(JSON.stringify(facts));
  for (const file of modelParts(modelPath).paths) await addFile(hash, file);
  if (!isFake) for (const library of findEngineFolder().libraries) await addLibrary(hash, library);
  return hash.digest('hex');
}

/** The libraries' names have the engine's version; a build of the same version is told by its size. */
async function addLibrary(hash: Hash, library: string): Promise<void> {
  const { size } = await stat(library);
  hash.update(JSON.stringify([path.basename(library), size]));
}

/** A change in place shows in the time, another file of the same size and time in its content. */
async function addFile(hash: Hash, name: string): Promise<void> {
  const file = await open(name);
  try {
    const { size, mtimeMs } = await file.stat();
    hash.update(JSON.stringify([size, mtimeMs]));
    const strideBytes = Math.max(SAMPLE_BYTES, Math.floor(size / SAMPLES));
    for (let at = 0; at < size; at += strideBytes) hash.update(await sampleOf(file, at));
  } finally {
    await file.close();
  }
}

async function sampleOf(file: FileHandle, at: number): Promise<Buffer> {
  const { buffer, bytesRead } = await file.read(Buffer.alloc(SAMPLE_BYTES), 0, SAMPLE_BYTES, at);
  return buffer.subarray(0, bytesRead);
}
