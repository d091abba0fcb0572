/**
 * Greedy answers of the whole pipeline are the engine's own: what one sequence gives that is decoded alone, by hand.
 *
 * Alone, a request must equal that to the token, whatever the settings. Beside others the engine rounds otherwise in two places: its flash
 * attention on the CPU adds up 16-bit values, in an order that follows from how many tokens a batch has; and in the shared pool the order
 * of a sum follows from where a sequence's cells lie. In private streams without flash attention nothing of the kind is left, and there
 * nine sequences must equal one to the token too. Elsewhere they are held against the engine under the very same batches.
 */
import t from 'tap';
import { DirectDecode } from '../support/direct-decode.js';
import {
  answersAlone,
  answersByHand,
  answersTogether,
  checkUnderSameBatches,
  EXACT,
  type GreedyPlan,
  tokensOf,
} from '../support/greedy-check.js';
import { makePrompts } from '../support/prompts.js';
import { startRealPipeline } from '../support/real-pipeline.js';
import type { TestModelName } from '../support/test-models.js';

const MODELS: TestModelName[] = ['tiny-qwen3', 'tiny-moe', 'tiny-mamba', 'tiny-hybrid'];
const PROMPTS = 20;
const OUTPUT_TOKENS = 16;

for (const model of MODELS) {
  t.test(model, async (t) => {
    const direct = new DirectDecode(model);
    t.teardown(() => direct.close());
    const prompts = makePrompts(direct.vocabulary, PROMPTS, 10, 120);
    const plan: GreedyPlan = { model, prompts, maxTokens: OUTPUT_TOKENS };

    t.test('private, without flash attention: alone and beside eight others', async (t) => {
      const pipeline = await startRealPipeline(model, EXACT);
      t.teardown(() => pipeline.close(0));
      const expected = answersByHand(direct, pipeline, plan);
      t.equal(new Set(expected.map(String)).size, PROMPTS, 'no two answers are alike: mixing them up would show');
      t.same(tokensOf(await answersAlone(pipeline, plan)), expected);
      t.same(tokensOf(await answersTogether(pipeline, plan)), expected);

      const lockStep = await startRealPipeline(model, { ...EXACT, overlapSchedule: false });
      t.teardown(() => lockStep.close(0));
      t.same(tokensOf(await answersTogether(lockStep, plan)), expected, 'planned and run in lock step');
    });

    t.test('as served by default: alone', async (t) => {
      const pipeline = await startRealPipeline(model, { kvLayout: 'shared' });
      t.teardown(() => pipeline.close(0));
      t.same(tokensOf(await answersAlone(pipeline, plan)), answersByHand(direct, pipeline, plan));
    });

    for (const settings of [
      { kvLayout: 'shared', overlapSchedule: true },
      { kvLayout: 'shared', overlapSchedule: false },
      { kvLayout: 'private', overlapSchedule: true },
    ] as const) {
      t.test(`beside eight others, under the same batches: ${JSON.stringify(settings)}`, async (t) => {
        await checkUnderSameBatches(t, direct, plan, settings);
      });
    }
  });
}
