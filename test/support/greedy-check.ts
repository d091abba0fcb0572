/** A pipeline's greedy answers against those of one sequence decoded alone by hand. */

import type { Test } from 'tap';
import type { WorkerPipeline } from '../../src/main/pipeline.js';
import type { ConfigInput } from '../../src/shared/config.js';
import { replay } from './batch-replay.js';
import { batchRecords, withRings } from './batch-tap.js';
import type { DirectDecode } from './direct-decode.js';
import { type Completion, complete, keepBusy, startRealPipeline } from './real-pipeline.js';
import type { TestModelName } from './test-models.js';

export interface GreedyPlan {
  model: TestModelName;
  prompts: readonly number[][];
  maxTokens: number;
}

/** Sequences that run beside each other: one and eight others. */
const SIDE_BY_SIDE = 9;

/** Roundings depend neither on what else runs nor on where in memory it lies: see test/model/greedy-equality.test.ts. */
export const EXACT = { kvLayout: 'private', flashAttention: 'off' } as const;

/** One request after the other: each has the engine to itself. */
export async function answersAlone(
  pipeline: WorkerPipeline,
  { prompts, maxTokens }: GreedyPlan,
): Promise<Completion[]> {
  const answers: Completion[] = [];
  for (const prompt of prompts) answers.push(await complete(pipeline, prompt, { maxTokens }));
  return answers;
}

/** All at once; as many as run at a time, and fillers behind the last ones, so that each has eight others beside it. */
export async function answersTogether(
  pipeline: WorkerPipeline,
  { prompts, maxTokens }: GreedyPlan,
): Promise<Completion[]> {
  const answers = Promise.all(prompts.map((prompt) => complete(pipeline, prompt, { maxTokens })));
  const shortest = [...prompts].sort((a, b) => a.length - b.length);
  const fillers = keepBusy(pipeline, shortest.slice(0, SIDE_BY_SIDE - 1));
  await answers;
  await fillers.stop();
  return answers;
}

/** The same tokens from the same engine, one sequence alone: on the context that `pipeline` stands on. */
export function answersByHand(
  direct: DirectDecode,
  pipeline: WorkerPipeline,
  { prompts, maxTokens }: GreedyPlan,
): number[][] {
  direct.createContext(pipeline.ready.ladder[0].spec, pipeline.ready.plan.chunkTokens);
  return prompts.map((prompt) => direct.generate(prompt, maxTokens));
}

export function tokensOf(answers: readonly Completion[]): number[][] {
  return answers.map(({ tokens }) => tokens);
}

/** Requests side by side on a pipeline of their own, and the batches that they became. */
export async function recordedAnswers(plan: GreedyPlan, settings: ConfigInput) {
  const { started: pipeline, rings } = await withRings(() => startRealPipeline(plan.model, settings));
  try {
    const answers = await answersTogether(pipeline, plan);
    return { answers, records: batchRecords(rings), spec: pipeline.ready.ladder[0].spec };
  } finally {
    await pipeline.close(0);
  }
}

/**
 * Requests side by side, held against the engine under the very batches that the scheduler made of them. Two things are checked: by a
 * reading of the records apart from scheduler and engine, each token was sampled behind exactly its request's prompt and earlier tokens;
 * and the engine, driven by hand with these records, gives token for token what the pipeline gave.
 */
export async function checkUnderSameBatches(
  t: Test,
  direct: DirectDecode,
  plan: GreedyPlan,
  settings: ConfigInput,
): Promise<Completion[]> {
  const { answers, records, spec } = await recordedAnswers(plan, settings);
  const { requests, widest } = replay(direct, spec, records);
  t.equal(widest, SIDE_BY_SIDE, 'nine sequences shared a batch');
  answers.forEach((answer, i) => {
    const { tokens, contexts } = requests.get(answer.id) ?? { tokens: [], contexts: [] };
    t.same(answer.tokens, tokens, `prompt ${i}: the engine's own tokens under the same batches`);
    const expected = contexts.map((_, sampled) => [...plan.prompts[i], ...answer.tokens.slice(0, sampled)]);
    t.same(contexts, expected, `prompt ${i}: each token was sampled behind the whole text so far and nothing else`);
  });
  return answers;
}
