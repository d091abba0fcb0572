import { findProfile } from '../../src/shared/memory/profiles.js';
import {
  type ChipName,
  Clients,
  isRefusal,
  MODELS,
  type ModelName,
  machineOfProfile,
  PoissonArrivals,
  type SimulatedMachine,
  type SimulationInput,
  type SimulationResult,
  simulate,
} from '../../src/shared/simulation/index.js';

export const FIELD_LIMIT_BYTES = Math.round(17.76 * 2 ** 30);
const HOUR = 3600;

/** @throws Error for a name that profiles.ts does not have. */
export function machineNamed(name: string, limitBytes?: number): SimulatedMachine {
  const profile = findProfile(name);
  if (profile === null) throw new Error(`no profile is named ${name}`);
  return machineOfProfile(profile, limitBytes);
}

/** @throws Error when the model does not fit: the loads here are chosen to. */
export function runLoad(input: SimulationInput): SimulationResult {
  const outcome = simulate(input);
  if (isRefusal(outcome)) throw new Error(`${input.machine.name}: ${outcome.sentence}`);
  return outcome;
}

export interface OfficeCase {
  profile: string;
  chip: ChipName;
  model: ModelName;
  limitBytes?: number;
}

export const OFFICES: readonly OfficeCase[] = [
  { profile: 'm4-16gb', chip: 'm4', model: 'llama-3.1-8b-q4' },
  { profile: 'm4-pro-24gb', chip: 'm4-pro', model: 'qwen3-30b-a3b-4bit', limitBytes: FIELD_LIMIT_BYTES },
  { profile: 'm4-32gb', chip: 'm4', model: 'qwen3-32b-q4' },
  { profile: 'm4-max-64gb', chip: 'm4-max', model: 'llama-3.3-70b-q4' },
  { profile: 'm4-max-128gb', chip: 'm4-max', model: 'gpt-oss-120b-mxfp4' },
  { profile: 'm3-ultra-256gb', chip: 'm3-ultra', model: 'qwen3-235b-a22b-q4' },
];

/** Four clients that think for 20 s, for so many hours: mostly new prompts, a third with a prefix that others have too. */
export function office({ profile, chip, model, limitBytes }: OfficeCase, hours: number): SimulationResult {
  const seconds = hours * HOUR;
  const workload = new Clients({
    count: 4,
    thinkMs: 20_000,
    untilMs: seconds * 1000,
    seed: 1,
    shape: {
      promptTokens: [200, 3000],
      answerTokens: [16, 200],
      repeats: { share: 0.33, count: 4, tokens: [300, 600] },
    },
  });
  return runLoad({ machine: machineNamed(profile, limitBytes), chip, model: MODELS[model], workload, seconds });
}

/** Prompts of 500 to 2000 tokens for eight hours, two thirds of them new. */
export function eightHours(
  machine: SimulatedMachine,
  chip: ChipName,
  model: ModelName,
  everySeconds: number,
): SimulationResult {
  const seconds = 8 * HOUR;
  const workload = new PoissonArrivals({
    perSecond: 1 / everySeconds,
    untilMs: seconds * 1000,
    seed: 1,
    shape: {
      promptTokens: [500, 2000],
      answerTokens: [20, 100],
      repeats: { share: 1 / 3, count: 3, tokens: [350, 350] },
    },
  });
  return runLoad({ machine, chip, model: MODELS[model], workload, seconds });
}
