import t from 'tap';
import type { WorkerPipeline } from '../../src/main/pipeline.js';
import { fakeCompletion } from '../../src/workers/fake-tokens.js';
import { ask, startFakePipeline, textTokens } from '../support/fake-pipeline.js';

const FAT = { bytesPerToken: 128 * 1024, deviceKind: 'cpu' } as const;
const SETTINGS = { contextTokens: 8192, maxRunningRequests: 4, idleReleaseMs: 150 } as const;

async function until(pipeline: WorkerPipeline, isSo: (kvBytes: number) => boolean): Promise<void> {
  while (!isSo(pipeline.deviceGauges().kvBytes)) await new Promise((resolve) => setTimeout(resolve, 10));
}

for (const kvLayout of ['shared', 'private'] as const) {
  t.test(`KV and compute go back when idle and come back with the next request (${kvLayout})`, async (t) => {
    const pipeline = await startFakePipeline(FAT, { ...SETTINGS, kvLayout });
    t.teardown(() => pipeline.close(0));
    const prompt = textTokens('before'.repeat(50));
    const before = await ask(pipeline, prompt, { maxTokens: 20 });
    for (let round = 1; round <= 3; round++) {
      await until(pipeline, (kvBytes) => kvBytes === 0);
      t.equal(pipeline.deviceGauges().computeBytes, 0);
      t.equal(pipeline.schedulerGauges().runningRequests, 0);
      const after = await Promise.all([
        ask(pipeline, prompt, { maxTokens: 20 }),
        ask(pipeline, textTokens('x'), { maxTokens: 5 }),
      ]);
      t.same(after[0].tokens, before.tokens, 'the same answer as before');
      t.equal(after[0].cachedTokens, 0, 'a prefix of the old context is not taken for one of the new');
      t.same(after[1].tokens, fakeCompletion(textTokens('x'), 5));
    }
  });
}

t.test('a context is not put away under a request that takes longer than that', async (t) => {
  const pipeline = await startFakePipeline({ ...FAT, decodeDelayMicros: 2000 }, SETTINGS);
  t.teardown(() => pipeline.close(0));
  const epoch = pipeline.deviceGauges().contextEpoch;
  const answer = await ask(pipeline, textTokens('long'), { maxTokens: 250 });
  t.same(answer.tokens, fakeCompletion(textTokens('long'), 250));
  t.equal(pipeline.deviceGauges().contextEpoch, epoch, 'the same context all along');
});

t.test('0 means never', async (t) => {
  const pipeline = await startFakePipeline(FAT, { ...SETTINGS, idleReleaseMs: 0 });
  t.teardown(() => pipeline.close(0));
  await ask(pipeline, textTokens('a'), { maxTokens: 1 });
  await new Promise((resolve) => setTimeout(resolve, 500));
  t.ok(pipeline.deviceGauges().kvBytes > 0);
});
