import t from 'tap';
import { fakeCompletion } from '../../src/workers/fake-tokens.js';
import { ask, startFakePipeline, textTokens } from '../support/fake-pipeline.js';

for (const settings of [
  { overlapSchedule: true, kvLayout: 'shared' },
  { overlapSchedule: true, kvLayout: 'private' },
  { overlapSchedule: false, kvLayout: 'shared' },
] as const) {
  t.test(`every answer is the engine's own (${JSON.stringify(settings)})`, async (t) => {
    const pipeline = await startFakePipeline({ endOfGenerationProbability: 0.01 }, settings);
    t.teardown(() => pipeline.close(0));
    const prompts = Array.from({ length: 40 }, (_, i) =>
      textTokens(`request ${i % 30} ${'abc'.repeat((i * 37) % 200)}`),
    );
    const answers = await Promise.all(
      prompts.map((prompt, i) => ask(pipeline, prompt, { maxTokens: 1 + ((i * 7) % 50) })),
    );
    answers.forEach((answer, i) => {
      t.same(answer.tokens, fakeCompletion(prompts[i], 1 + ((i * 7) % 50), { endOfGenerationProbability: 0.01 }));
      t.match(answer.reason, /stop|length/);
    });
    t.equal(pipeline.activeCount, 0);
  });
}

t.test('a conversation goes on from its cached prefix', async (t) => {
  const pipeline = await startFakePipeline();
  t.teardown(() => pipeline.close(0));
  const first = textTokens('system: be brief. user: hello');
  const answer = await ask(pipeline, first, { maxTokens: 10 });
  const second = [...first, ...answer.tokens, ...textTokens(' user: and now?')];
  const next = await ask(pipeline, second, { maxTokens: 10 });
  // The last sampled token has no cell: it was never decoded.
  t.equal(next.cachedTokens, first.length + 9);
  t.same(next.tokens, fakeCompletion(second, 10));
  const salted = await ask(pipeline, second, { maxTokens: 3 }, undefined, { cacheSalt: 5 });
  t.equal(salted.cachedTokens, 0, 'nothing crosses a salt');
});

t.test('a request that never fits is refused at once, with both numbers', async (t) => {
  const pipeline = await startFakePipeline();
  t.teardown(() => pipeline.close(0));
  await t.rejects(ask(pipeline, new Int32Array(2040).fill(65), { maxTokens: 9 }), {
    code: 'context_length_exceeded',
    message: /maximum context length is 2048.*2040.*exceeds the available context size/,
  });
  const fits = await ask(pipeline, new Int32Array(2040).fill(65), { maxTokens: 8 });
  t.equal(fits.tokens.length, 8);
});
