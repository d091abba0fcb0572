/** The engine's CPU backend as a build compiles it where processor and compiler have more than the npm package's variants use (addon/binding.gyp). */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { EngineFolder } from './engine-folder.js';

/** With 16-bit arithmetic, dot products take so many numbers at a time, and the rest of a head one by one. From the engine's source
 *  (GGML_F16_STEP). */
const HEAD_STEP = 128;

export interface CpuBackendQuestion {
  engine: EngineFolder;
  /** Where the built addon lies. */
  addonFolder: string;
  /** Numbers in a key and in a value of the model to be loaded; null: not known. */
  headLengths: readonly number[] | null;
  /** What the processor can do, as Linux names it. */
  instructions: ReadonlySet<string>;
}

/**
 * The file to open in place of the engine's own choice; null: its own choice. Prompts take 2 % less time. With 16-bit arithmetic and heads of
 * 128 numbers and more, a decode in a long conversation takes two thirds of the time; with shorter ones it would take two to three times as
 * long (docs/benchmarks.md).
 */
export function cpuBackendFor({ engine, addonFolder, headLengths, instructions }: CpuBackendQuestion): string | null {
  const fillsSteps = headLengths?.every((length) => length > 0 && length % HEAD_STEP === 0) ?? false;
  const path = join(addonFolder, fillsSteps ? 'ggml-cpu-fp16.so' : 'ggml-cpu-tuned.so');
  if (!existsSync(path) || !hasOnlyCpuModules(engine)) return null;
  // Matrix tiles are worth more, and are not among what it was compiled for.
  if (instructions.has('amx_tile')) return null;
  return neededInstructions(addonFolder).every((name) => instructions.has(name)) ? path : null;
}

/** Modules for a GPU are found by the engine itself, which then takes its CPU backend from there, too. */
function hasOnlyCpuModules({ path, backendPath }: EngineFolder): boolean {
  if (backendPath === '') return false;
  const modules = readdirSync(path).filter((name) => /^libggml-(?!base\b)[^.]+\.so$/.test(name));
  return modules.every((name) => name.startsWith('libggml-cpu'));
}

function neededInstructions(addonFolder: string): string[] {
  return Object.keys(JSON.parse(readFileSync(join(addonFolder, '../../cpu-backend.json'), 'utf8')) as object);
}

/** What this processor can do; empty where the system does not say it as Linux does. */
export function processorInstructions(): ReadonlySet<string> {
  if (process.platform !== 'linux') return new Set();
  const flags = /^flags\s*:(.*)$/m.exec(readFileSync('/proc/cpuinfo', 'utf8'));
  return new Set(flags?.[1].trim().split(' ') ?? []);
}
