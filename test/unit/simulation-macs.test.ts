import t from 'tap';
import { findProfile } from '../../src/shared/memory/profiles.js';
import {
  type ChipName,
  Clients,
  MODELS,
  type ModelName,
  machineOfProfile,
  PoissonArrivals,
  type Workload,
} from '../../src/shared/simulation/index.js';
import { mustFit, runOn } from '../support/simulated.js';

const HOUR = 3600;

/** Clients of a coding agent and a chat beside it: mostly new prompts, a third with a prefix that others have too. */
function office(seconds: number, seed: number): Workload {
  return new Clients({
    count: 4,
    thinkMs: 20_000,
    untilMs: seconds * 1000,
    seed,
    shape: {
      promptTokens: [200, 3000],
      answerTokens: [16, 200],
      repeats: { share: 0.33, count: 4, tokens: [300, 600] },
    },
  });
}

interface Case {
  profile: string;
  chip: ChipName;
  model: ModelName;
  hours: number;
  /** Metal's working set where it is not the lowest that was reported for this size. */
  limitBytes?: number;
}

const CASES: readonly Case[] = [
  { profile: 'm4-16gb', chip: 'm4', model: 'llama-3.1-8b-q4', hours: 4 },
  // The machine of the field case: 17.76 GiB of working set.
  {
    profile: 'm4-pro-24gb',
    chip: 'm4-pro',
    model: 'qwen3-30b-a3b-4bit',
    hours: 2,
    limitBytes: Math.round(17.76 * 2 ** 30),
  },
  { profile: 'm4-32gb', chip: 'm4', model: 'qwen3-32b-q4', hours: 8 },
  { profile: 'm4-max-64gb', chip: 'm4-max', model: 'llama-3.3-70b-q4', hours: 8 },
  { profile: 'm4-max-128gb', chip: 'm4-max', model: 'gpt-oss-120b-mxfp4', hours: 2 },
  { profile: 'm3-ultra-256gb', chip: 'm3-ultra', model: 'qwen3-235b-a22b-q4', hours: 4 },
];

for (const { profile, chip, model, hours, limitBytes } of CASES) {
  t.test(`${hours} hours of load on ${profile} with ${model}`, async (t) => {
    const machine = machineOfProfile(findProfile(profile)!, limitBytes);
    const seconds = hours * HOUR;
    const result = runOn({ machine, chip, model: MODELS[model], workload: office(seconds, hours), seconds });
    mustFit(t, result);
    t.same(Object.keys(result.ends), ['done'], 'every request has its whole answer');
    t.ok((result.ends.done ?? 0) > 20 * hours, `${result.ends.done} requests`);
    t.equal(result.longestStandstillMs, 0, 'never idle while a request is there');
    t.ok(result.replans.length <= 5, 'the context climbs its ladder once and stays');
  });
}

t.test('a model that does not fit is refused, and says what would do', async (t) => {
  const machine = machineOfProfile(findProfile('m4-16gb')!);
  t.throws(
    () => runOn({ machine, chip: 'm4', model: MODELS['llama-3.3-70b-q4'], workload: office(1, 1), seconds: 1 }),
    /refused/,
  );
});

t.test(
  'more load than the machine can carry: waits are bounded, nobody gets anything but an answer or a refusal',
  async (t) => {
    const seconds = HOUR / 2;
    const workload = new PoissonArrivals({
      perSecond: 2,
      untilMs: seconds * 1000,
      seed: 9,
      shape: { promptTokens: [500, 2000], answerTokens: [32, 64] },
    });
    const machine = machineOfProfile(findProfile('m4-max-64gb')!);
    const model = MODELS['llama-3.3-70b-q4'];
    const result = runOn({
      machine,
      chip: 'm4-max',
      model,
      workload,
      seconds,
      maxWaitMs: 60_000,
      maxQueuedRequests: 64,
    });
    mustFit(t, result);
    t.same(Object.keys(result.ends).sort(), ['done', 'insufficientMemory', 'queueFull']);
    t.ok((result.ends.done ?? 0) > 50);
    t.ok(result.waits.max <= 61_000, `longest wait ${result.waits.max} ms`);
  },
);

t.test('requests that can never fit are refused and disturb nobody', async (t) => {
  const machine = machineOfProfile(findProfile('m4-32gb')!);
  const seconds = HOUR / 4;
  let sent = 0;
  const inner = office(seconds, 3);
  const workload: Workload = {
    nextAtMs: () => inner.nextAtMs(),
    over: (...event) => inner.over(...event),
    take(contextTokens) {
      const request = inner.take(contextTokens);
      return sent++ % 5 === 4 ? { ...request, maxTokens: contextTokens } : request;
    },
  };
  const result = runOn({ machine, chip: 'm4', model: MODELS['qwen3-32b-q4'], workload, seconds });
  mustFit(t, result);
  t.same(Object.keys(result.ends).sort(), ['done', 'neverFits']);
});
