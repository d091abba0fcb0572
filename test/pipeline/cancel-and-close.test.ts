import t from 'tap';
import { fakeCompletion } from '../../src/workers/fake-tokens.js';
import { EngineLatch } from '../support/engine-latch.js';
import { ask, startFakePipeline, textTokens } from '../support/fake-pipeline.js';

t.test('a running request is over within two steps of its cancel', async (t) => {
  const latch = new EngineLatch();
  const pipeline = await startFakePipeline({ control: latch.buffer });
  t.teardown(() => pipeline.close(0));
  let stepsAtCancel = 0;
  const answer = await ask(pipeline, textTokens('go'), { maxTokens: 2000 }, (count, id) => {
    if (count !== 10) return;
    latch.hold();
    stepsAtCancel = latch.enteredSteps;
    pipeline.cancel(id);
    latch.release();
  });
  t.equal(answer.reason, 'cancelled');
  t.same(answer.tokens, fakeCompletion(textTokens('go'), answer.tokens.length), 'what came before it stands');
  t.ok(latch.enteredSteps - stepsAtCancel < 100, 'the device did not run on to the end');
  const next = await ask(pipeline, textTokens('next'), { maxTokens: 4 });
  t.same(next.tokens, fakeCompletion(textTokens('next'), 4));
});

t.test('a cancel in prefill and in the queue', async (t) => {
  const latch = new EngineLatch();
  const pipeline = await startFakePipeline({ control: latch.buffer }, { maxRunningRequests: 1, chunkTokens: 16 });
  t.teardown(() => pipeline.close(0));
  latch.hold();
  const long = ask(pipeline, new Int32Array(1500).fill(66), { maxTokens: 5 });
  const queued = ask(pipeline, textTokens('queued'), { maxTokens: 5 });
  await latch.entered(1);
  pipeline.cancel(2);
  pipeline.cancel(1);
  latch.release();
  t.equal((await queued).reason, 'cancelled');
  t.equal((await long).reason, 'cancelled');
  t.equal((await queued).cachedTokens, -1, 'it never left the queue');
  // 1500 tokens in chunks of 16 are 94 steps: a cancel that waits for the prefill's end would take them all.
  t.ok(latch.enteredSteps < 10, `${latch.enteredSteps} steps`);
  t.equal(pipeline.activeCount, 0);
});

t.test('the partial work of a cancelled prompt stays usable', async (t) => {
  const latch = new EngineLatch();
  const pipeline = await startFakePipeline({ control: latch.buffer }, { maxRunningRequests: 1, chunkTokens: 64 });
  t.teardown(() => pipeline.close(0));
  const prompt = new Int32Array(1500).map((_, i) => 65 + (i % 26));
  latch.hold();
  const first = ask(pipeline, prompt, { maxTokens: 5 });
  await latch.entered(1);
  pipeline.cancel(1);
  latch.release();
  await first;
  const again = await ask(pipeline, prompt, { maxTokens: 5 });
  t.ok(again.cachedTokens >= 64, `${again.cachedTokens} tokens`);
  t.same(again.tokens, fakeCompletion(prompt, 5));
});

t.test('the queue is bounded, and waiting in it is', async (t) => {
  const latch = new EngineLatch();
  const pipeline = await startFakePipeline({ control: latch.buffer }, { maxRunningRequests: 1, maxQueuedRequests: 2 });
  t.teardown(() => pipeline.close(0));
  latch.hold();
  const running = ask(pipeline, textTokens('running'), { maxTokens: 3 });
  await latch.entered(1);
  const patient = ask(pipeline, textTokens('patient'), { maxTokens: 3 });
  const hasty = ask(pipeline, textTokens('hasty'), { maxTokens: 3 }, undefined, { maxWaitMs: 1 });
  await t.rejects(ask(pipeline, textTokens('too many')), { code: 'queue_full' });
  await new Promise((resolve) => setTimeout(resolve, 60));
  latch.release();
  t.match((await hasty).reason, { code: 'insufficient_memory' });
  t.same((await running).tokens, fakeCompletion(textTokens('running'), 3));
  t.same((await patient).tokens, fakeCompletion(textTokens('patient'), 3));
});

t.test('close lets requests finish, refuses new ones, and cancels what takes too long', async (t) => {
  const patient = await startFakePipeline({ decodeDelayMicros: 500 });
  const answer = ask(patient, textTokens('finish me'), { maxTokens: 40 });
  const closed = patient.close(10_000);
  await t.rejects(ask(patient, textTokens('late')), { code: 'draining' });
  t.equal((await answer).reason, 'length');
  await closed;

  const hasty = await startFakePipeline({ decodeDelayMicros: 500 });
  const endless = ask(hasty, textTokens('endless'), { maxTokens: 2000 });
  await hasty.close(20);
  t.equal((await endless).reason, 'cancelled');
});

t.test('close ends a step that is in the engine', async (t) => {
  const latch = new EngineLatch();
  const pipeline = await startFakePipeline({ control: latch.buffer });
  latch.hold();
  const answer = ask(pipeline, textTokens('held'), { maxTokens: 5 });
  await latch.entered(1);
  await pipeline.close(0);
  t.match((await answer).reason, { code: 'draining' });
});
