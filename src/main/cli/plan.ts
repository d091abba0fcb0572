/** `plimsoll plan`: what would fit, and what would change it. */
import type { Config } from '../../shared/config.js';
import type { Engine } from '../../shared/engine.js';
import { costModelOfProfile, inputOfProfile } from '../../shared/memory/plan-profile.js';
import { planContext } from '../../shared/memory/planner.js';
import type { DeviceProfile } from '../../shared/memory/profiles.js';
import { whatWouldChange } from '../../shared/memory/what-changes.js';
import { openEngine } from '../../workers/open-engine.js';
import { planFlags } from '../plan-settings.js';
import { EXIT_FAILED } from './cli-error.js';
import { planHere } from './plan-here.js';
import { type PlanModelFile, planModel } from './plan-model.js';
import { rememberedLine } from './plan-remembered-line.js';
import { type PlannedEntry, planJson, planTable } from './plan-table.js';
import { namesOnlyProfiles, planTargets } from './plan-targets.js';
import type { AnswerOptions } from './run.js';

/** Machines up to which each is explained; more are a table alone. Chosen: two screens. */
const EXPLAINED_MAX = 6;

/**
 * Writes the plans to stdout. @returns the exit code: 1 when the model fits on none of the machines.
 * @throws CliError, ModelError, EngineError: one line each.
 */
export async function runPlan(config: Config, { json, env, streams }: AnswerOptions): Promise<number> {
  // Profiles need no engine, so they can be planned for where none is installed.
  const engine = namesOnlyProfiles(config.devices) ? null : (await openEngine(null, null)).engine;
  try {
    const targets = planTargets(config.devices, engine?.devices().map(({ name }) => name) ?? []);
    const model = await planModel(config.model, env);
    const entries = targets.map((target) =>
      target.kind === 'profile'
        ? planProfile(target.profile, model, config)
        : planHere(engine as Engine, {
            config,
            model,
            devices: target.devices,
            lineFraction: model.path === null ? 1 : rememberedLine(config, model.path, env).fraction,
          }),
    );
    streams.stdout.write(json ? planJson(entries) : planTable(entries, entries.length <= EXPLAINED_MAX));
    return entries.some(({ result }) => !result.refused) ? 0 : EXIT_FAILED;
  } finally {
    engine?.close();
  }
}

function planProfile(profile: DeviceProfile, { shape, name }: PlanModelFile, config: Config): PlannedEntry {
  const input = inputOfProfile(profile, shape, planFlags(config));
  const costs = costModelOfProfile(profile, shape);
  const result = planContext(input, costs);
  return {
    device: profile.name,
    model: name,
    result,
    changes: result.refused ? [] : whatWouldChange(input, costs, result),
    limitSource: `${profile.description}: ${profile.sourceNote}`,
    notes: config.gpuLayers === -1 ? [] : ['planned with all layers on the GPU, whatever --gpu-layers says'],
  };
}
