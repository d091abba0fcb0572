/**
 * The one place that loads the addon. The addon is linked to no engine: the loader opens the engine's libraries into the process's
 * global scope first, and the addon's symbols resolve there.
 */
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { cpuBackendFor, processorInstructions } from './cpu-backend.js';
import {
  type ContextInfo,
  type ContextSpec,
  type DeviceInfo,
  EngineError,
  type EngineErrorCode,
  type EngineLogs,
  type MemoryBreakdown,
  type ModelInfo,
  type ModelOptions,
  type Readings,
} from './engine.js';
import { type EngineFolder, findEngineFolder } from './engine-folder.js';

/** The engine's structs are compiled into the addon, so only this version can be called; builds from source add a suffix. */
export const ENGINE_VERSION = '0.4.0';

export interface NativeEngineObject {
  loadModel(options: ModelOptions, onProgress?: (fraction: number) => boolean): ModelInfo;
  freeModel(): void;
  measure(spec: ContextSpec): MemoryBreakdown[];
  createContext(spec: ContextSpec): ContextInfo;
  freeContext(): void;
  step(words: Int32Array, at: number, output: Int32Array): void;
  saveSequence(sequence: number): Uint8Array;
  restoreSequence(sequence: number, state: Uint8Array): boolean;
  releaseState(state: Uint8Array): void;
  writeSequence(sequence: number, path: string, cachedBytes: number): number;
  readSequence(sequence: number, path: string): boolean;
  readings(): Readings;
  setAbortFlag(words: Int32Array, index: number): void;
  close(): void;
}

export interface NativeVocabularyObject {
  describe(): { size: number; bos: number; eos: number; addsBos: boolean };
  tokenize(text: string, addSpecial: boolean, parseSpecial: boolean): Int32Array;
  pieces(withControl: boolean): { offsets: Int32Array; bytes: Uint8Array };
  isEndOfGeneration(token: number): boolean;
  applyTemplate(inputsJson: string): string;
  checkGrammar(text: string): string | null;
  close(): void;
}

/** A line of the engine's log. Levels: 1 debug, 2 info, 3 warning, 4 error. */
export interface SampledLogits {
  token: number;
  flags: number;
  logprob: number;
  top: [token: number, logprob: number][];
}

/** What the operating system tells; `gpuWiredLimitBytes`: macOS only, 0 when the system's own limit holds. */
export interface HostReadings extends Omit<Readings, 'deviceTotalBytes' | 'deviceFreeBytes'> {
  gpuWiredLimitBytes: number;
}

export interface NativeAddon {
  Engine: new () => NativeEngineObject;
  Vocabulary: new (handle: number) => NativeVocabularyObject;
  /** `path`: a folder to search for backends, or the file of one; empty when they are linked in. Only a process's first counts. */
  backendInit(path: string): void;
  devices(): DeviceInfo[];
  /** `root`: a folder with a tree of /proc and control groups to read instead of the machine's: for tests. */
  hostReadings(root?: string): HostReadings;
  drainLogs(): EngineLogs;
  layout(): Record<string, number | Record<string, number>>;
  /** Writes `to` in llama.cpp's file type `ftype` (2: Q4_0, 7: Q8_0). */
  quantize(from: string, to: string, ftype: number, threads: number): void;
  /** A sequence's sampler, alone with a row of logits: for tests. */
  sampleLogits(
    logits: Float32Array,
    block: Int32Array,
    history: Int32Array,
    sampledBefore: number,
    endTokens: Int32Array,
  ): SampledLogits;
}

interface NativeLoader {
  open(paths: string[]): string | null;
  version(): string | null;
}

export interface LoadedAddon {
  addon: NativeAddon;
  engine: EngineFolder;
  engineVersion: string;
}

/** The package's root is the nearest folder above with the addon's sources: the compiled files lie in dist/ or build/. */
function addonFolder(): string {
  for (let folder = dirname(fileURLToPath(import.meta.url)); ; folder = dirname(folder)) {
    if (existsSync(join(folder, 'addon', 'binding.gyp'))) return join(folder, 'addon', 'build', 'Release');
    if (folder === dirname(folder))
      throw new EngineError('engine_not_found', 'the addon is missing from this installation; reinstall plimsoll');
  }
}

function requireAddon(folder: string, name: string): unknown {
  const path = join(folder, `${name}.node`);
  if (!existsSync(path))
    throw new EngineError('engine_not_found', `the addon is not built (${path} is missing); run "make build"`);
  try {
    return createRequire(import.meta.url)(path);
  } catch (error) {
    throw new EngineError(
      'engine_not_found',
      `the addon cannot be loaded; run "make build" again: ${(error as Error).message}`,
    );
  }
}

let loaded: LoadedAddon | null = null;

/**
 * Loads engine and addon, once a thread. The libraries themselves are shared by all threads. For what computes, `openBackends` comes next.
 * @throws EngineError engine_not_found, with what to do about it.
 */
export function loadNativeAddon(): LoadedAddon {
  if (loaded !== null) return loaded;
  const folder = addonFolder();
  const engine = findEngineFolder();
  const loader = requireAddon(folder, 'plimsoll_loader') as NativeLoader;
  const [base, ...others] = engine.libraries;
  let problem = loader.open([base]);
  // One that cannot be opened may not be needed; when it is, the library that needs it says so.
  for (const backend of engine.linkedBackends) loader.open([backend]);
  problem ??= loader.open(others);
  if (problem !== null)
    throw new EngineError('engine_not_found', `llama.cpp in ${engine.path} cannot be opened: ${problem}`);
  const engineVersion = loader.version();
  if (engineVersion === null || !(engineVersion === ENGINE_VERSION || engineVersion.startsWith(`${ENGINE_VERSION}-`))) {
    throw new EngineError(
      'engine_not_found',
      `llama.cpp in ${engine.path} is version ${engineVersion ?? 'unknown'}; this addon needs ${ENGINE_VERSION}`,
    );
  }
  const addon = requireAddon(folder, 'plimsoll_addon') as NativeAddon;
  loaded = { addon, engine, engineVersion };
  return loaded;
}

/**
 * As loadNativeAddon, with the engine's backends open. `headLengths`: numbers in a key and in a value of the model that this process will
 * load; null: not known, or loaded already.
 */
export function openBackends(headLengths: readonly number[] | null): LoadedAddon {
  const { addon, engine } = loadNativeAddon();
  const question = { engine, addonFolder: addonFolder(), headLengths, instructions: processorInstructions() };
  const cpuBackend = cpuBackendFor(question);
  engineCall(() => addon.backendInit(cpuBackend ?? engine.backendPath));
  return loadNativeAddon();
}

/** Runs a call into the addon; its errors come out as EngineError. */
export function engineCall<T>(call: () => T): T {
  try {
    return call();
  } catch (error) {
    if (
      error instanceof Error &&
      !(error instanceof EngineError) &&
      typeof (error as { code?: unknown }).code === 'string'
    ) {
      throw new EngineError((error as unknown as { code: EngineErrorCode }).code, error.message);
    }
    throw error;
  }
}
