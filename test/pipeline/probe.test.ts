import t from 'tap';
import { STEP_STATUS } from '../../src/shared/step-output.js';
import { fakeCompletion } from '../../src/workers/fake-tokens.js';
import { ask, startFakePipeline, textTokens } from '../support/fake-pipeline.js';

t.test('the largest planned step runs before serving, and leaves nothing behind', async (t) => {
  const pipeline = await startFakePipeline({}, { probe: true });
  t.teardown(() => pipeline.close(0));
  const { probe } = pipeline.ready;
  t.ok(probe.ran);
  t.match(probe.sentence, /^256 tokens and one token of each other sequence/);
  t.equal(pipeline.deviceGauges().kvUsedTokens, 0);
  const answer = await ask(pipeline, textTokens('after the probe'), { maxTokens: 5 });
  t.same(answer.tokens, fakeCompletion(textTokens('after the probe'), 5));
});

t.test('a slow machine probes a small chunk and says what it extrapolated', async (t) => {
  const pipeline = await startFakePipeline({ perTokenDelayMicros: 2_000 }, { probe: true });
  t.teardown(() => pipeline.close(0));
  t.match(pipeline.ready.probe.sentence, /^32 of 256 tokens, the rest extrapolated/);
});

t.test('memory that the step takes beyond the plan is found', async (t) => {
  const GIB = 2 ** 30;
  // Readings in the order of a start: before the model, with it, for the plan, with the context, after the probe.
  const used = [1, 2, 2, 2.01, 2.51];
  const readings = used.map((gib) => ({ deviceTotalBytes: 4 * GIB, deviceFreeBytes: (4 - gib) * GIB }));
  const pipeline = await startFakePipeline({ readings }, { probe: true });
  t.teardown(() => pipeline.close(0));
  t.equal(pipeline.deviceGauges().runtimeExtraBytes, 0.5 * GIB);
});

t.test('a probe that fails keeps the planned caps and says so', async (t) => {
  const pipeline = await startFakePipeline(
    { failAtStep: [{ step: 1, status: STEP_STATUS.noKvSlot }] },
    { probe: true },
  );
  t.teardown(() => pipeline.close(0));
  t.match(pipeline.ready.probe.sentence, /failed .* planned caps are kept/);
});
