/** The model that would be served, as far as its file's header and the cache tell. Nothing is downloaded or loaded. */
import type { Config } from '../../shared/config.js';
import { asNamed } from '../../workers/device-names.js';
import { parseModelSpec } from '../models/model-spec.js';
import type { EngineFacts, ModelFacts } from './doctor-facts.js';
import { exitMessage } from './exit-messages.js';
import { readSwitch } from './flag-values.js';
import type { Environment } from './parse.js';
import { planFromHeader } from './plan-here.js';
import { type PlanModelFile, storedModel } from './plan-model.js';
import { rememberedLine } from './plan-remembered-line.js';

export async function modelFacts(config: Config, env: Environment, engine: EngineFacts): Promise<ModelFacts> {
  const facts: ModelFacts = {
    name: config.model,
    path: null,
    weightsBytes: null,
    downloadBytes: null,
    isOffline: readSwitch(env.PLIMSOLL_OFFLINE ?? '') === true,
    problem: null,
    fit: null,
    loweredLine: null,
  };
  try {
    const model = await storedModel(config.model, env);
    if (model === null) return { ...facts, downloadBytes: downloadBytes(config.model) };
    return { ...facts, ...factsOfFile(model, config, env, engine) };
  } catch (error) {
    return { ...facts, problem: exitMessage(error).text };
  }
}

function downloadBytes(name: string): number | null {
  const spec = parseModelSpec(name);
  return spec.kind === 'built-in' ? spec.entry.sizeBytes : null;
}

function factsOfFile(
  model: PlanModelFile & { path: string },
  config: Config,
  env: Environment,
  engine: EngineFacts,
): Partial<ModelFacts> {
  const line = rememberedLine(config, model.path, env);
  const facts = { path: model.path, weightsBytes: model.shape.weightsBytes, loweredLine: line.sentence };
  if (engine.problem !== null) return facts;
  const asked = { config, model, devices: asNamed(config.devices, engine.devices), lineFraction: line.fraction };
  const { result } = planFromHeader(engine, asked, '');
  const sentence = result.refused
    ? result.sentence
    : `room for ${result.runningCap} requests of ${result.contextTokens} tokens (estimated; plimsoll plan counts exactly)`;
  return { ...facts, fit: { fits: !result.refused, sentence } };
}
