/** `plimsoll doctor`: what this machine offers a server, and what keeps it from serving. */
import type { Config } from '../../shared/config.js';
import { EXIT_FAILED } from './cli-error.js';
import { checksOf } from './doctor-checks.js';
import { engineFacts } from './doctor-engine-facts.js';
import type { DoctorFacts } from './doctor-facts.js';
import { modelFacts } from './doctor-model-facts.js';
import { serverFacts, storageFacts, systemFacts } from './doctor-system-facts.js';
import { canServe, doctorJson, doctorText } from './doctor-text.js';
import type { Environment } from './parse.js';
import type { AnswerOptions } from './run.js';

/** Writes the findings to stdout. @returns the exit code: 0 when this machine can serve. */
export async function runDoctor(config: Config, { json, env, streams }: AnswerOptions): Promise<number> {
  const facts = await gather(config, env);
  const checks = checksOf(facts);
  streams.stdout.write(json ? doctorJson(checks, facts) : doctorText(checks));
  return canServe(checks) ? 0 : EXIT_FAILED;
}

async function gather(config: Config, env: Environment): Promise<DoctorFacts> {
  const [engine, storage, server] = await Promise.all([
    engineFacts(env),
    storageFacts(env),
    serverFacts(config.host, config.port),
  ]);
  const model = await modelFacts(config, env, engine);
  return { system: systemFacts(), engine, devices: config.devices, storage, model, server };
}
