import t from 'tap';
import type { PlimsollError } from '../../src/shared/errors.js';
import { STEP_STATUS } from '../../src/shared/step-output.js';
import { fakeCompletion } from '../../src/workers/fake-tokens.js';
import { ask, startFakePipeline, textTokens } from '../support/fake-pipeline.js';

const QUICK_WATCH = { intervalMs: 50, silentMs: 2_000, engineSilentMs: 300, goodbyeMs: 300 };

t.test('a failed step costs a context, not an answer', async (t) => {
  const logs: string[] = [];
  const pipeline = await startFakePipeline(
    {
      failAtStep: [
        { step: 5, status: STEP_STATUS.failed, engineCode: -3 },
        { step: 12, status: STEP_STATUS.noKvSlot },
      ],
    },
    {},
    { log: (_level, message) => logs.push(message) },
  );
  t.teardown(() => pipeline.close(0));
  const prompts = ['one', 'two two', 'three three three', 'four'].map((text) => textTokens(text));
  const answers = await Promise.all(prompts.map((prompt) => ask(pipeline, prompt, { maxTokens: 20 })));
  answers.forEach((answer, i) => {
    t.same(answer.tokens, fakeCompletion(prompts[i], 20), 'with the failure as without it');
    t.equal(answer.reason, 'length');
  });
  t.equal(logs.filter((line) => line.includes('made anew')).length, 2);
  t.equal(pipeline.deviceGauges().contextEpoch, 3);
});

t.test('a request whose steps always fail gets an error, and the server goes on', async (t) => {
  const failAtStep = Array.from({ length: 3 }, (_, i) => ({ step: i + 1, status: STEP_STATUS.failed }));
  const pipeline = await startFakePipeline({ failAtStep });
  t.teardown(() => pipeline.close(0));
  const doomed = await ask(pipeline, textTokens('doomed'));
  t.match(doomed.reason, { code: 'internal' });
  const fine = await ask(pipeline, textTokens('fine'), { maxTokens: 5 });
  t.same(fine.tokens, fakeCompletion(textTokens('fine'), 5));
});

for (const [what, fake, message] of [
  ['throws', { crashAtStep: { step: 3, kind: 'throw' } }, /forward worker/],
  ['is gone without a goodbye', { crashAtStep: { step: 3, kind: 'exit-thread' } }, /forward worker ended/],
  ['hangs inside the engine', { hangAtStep: 3 }, /hangs inside the engine/],
] as const) {
  t.test(`a forward worker that ${what} ends every request with an error, and close() ends`, async (t) => {
    const pipeline = await startFakePipeline(fake, {}, { watch: QUICK_WATCH });
    const fatal = new Promise<PlimsollError>((resolve) => pipeline.onFatal(resolve));
    const answers = await Promise.all([ask(pipeline, textTokens('a')), ask(pipeline, textTokens('b'))]);
    for (const answer of answers) t.match(answer.reason, { code: 'internal', message });
    t.match((await fatal).message, message);
    await t.rejects(ask(pipeline, textTokens('late')), { code: 'internal' });
    await pipeline.close(0);
  });
}

for (const name of ['overlap', 'forward'] as const) {
  t.test(`terminating the ${name} worker is noticed`, async (t) => {
    const pipeline = await startFakePipeline({ decodeDelayMicros: 2000 }, {}, { watch: QUICK_WATCH });
    const fatal = new Promise<PlimsollError>((resolve) => pipeline.onFatal(resolve));
    const answer = ask(pipeline, textTokens('long'), { maxTokens: 1000 }, (count) => {
      if (count === 2) void pipeline['workers'][name].terminate();
    });
    t.match((await answer).reason, { code: 'internal' });
    t.match((await fatal).message, new RegExp(`${name} worker ended`));
    await pipeline.close(0);
  });
}

for (const [what, fake, code] of [
  ['a model that cannot be loaded', { loadError: 'model_invalid' }, 'model_invalid'],
  ['a context that cannot be made', { contextLimitBytes: 1 }, 'out_of_memory'],
] as const) {
  t.test(`${what} is a StartError with its code`, async (t) => {
    await t.rejects(startFakePipeline(fake), { name: 'StartError', code });
  });
}

t.test('a plan that does not fit is a refusal with its numbers', async (t) => {
  await t.rejects(startFakePipeline({ bytesPerToken: 2 ** 40 }), {
    name: 'StartError',
    code: 'refused',
    refusal: { refused: true },
  });
});
