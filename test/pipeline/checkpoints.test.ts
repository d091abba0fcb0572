/** Boundaries travel with their request to the scheduler, and saved states back: over all rings, with models that cannot roll back. */
import t from 'tap';
import { prepareOptionsOf } from '../../src/main/prepare-pool.js';
import { fakeCompletion } from '../../src/workers/fake-tokens.js';
import { ask, startFakePipeline, textTokens } from '../support/fake-pipeline.js';

/** A prompt token takes long enough that a copy is worth it. */
const WHOLE = { canTrim: false, deviceKind: 'cpu', perTokenDelayMicros: 50 } as const;
const system = 'You are asked many things and know little of them. '.repeat(6);
const OUTPUT = { maxTokens: 6 };
const boundaries = [system.length];

t.test('by default, conversations with one system prompt compute it once', async (t) => {
  const pipeline = await startFakePipeline(WHOLE);
  t.teardown(() => pipeline.close(0));
  t.equal(prepareOptionsOf(pipeline).findsBoundaries, true);
  const prompts = ['one', 'two', 'three', 'four'].map((text) => textTokens(system + text));
  const [first, ...others] = await Promise.all(
    prompts.map((prompt) => ask(pipeline, prompt, OUTPUT, undefined, { boundaries })),
  );
  t.equal(first.cachedTokens, 0);
  for (const { cachedTokens } of others) t.equal(cachedTokens, system.length);
  for (const [i, { tokens }] of [first, ...others].entries())
    t.same(tokens, fakeCompletion(prompts[i], OUTPUT.maxTokens));
  t.ok(pipeline.deviceGauges().hostPrefixBytes > 0);
  t.ok(pipeline.loadLine().ledger.owners.hostPrefixTier > 0, 'and the ledger has it');
});

t.test('off, or where there is no prefix cache at all, nothing is saved', async (t) => {
  for (const settings of [{ checkpointCacheBytes: 0 }, { prefixCache: false }]) {
    const pipeline = await startFakePipeline(WHOLE, settings);
    t.teardown(() => pipeline.close(0));
    t.equal(prepareOptionsOf(pipeline).findsBoundaries, false);
    for (const text of ['one', 'two'])
      t.equal((await ask(pipeline, textTokens(system + text), OUTPUT, undefined, { boundaries })).cachedTokens, 0);
    t.equal(pipeline.schedulerGauges().hostPrefixSaves, 0);
  }
});

t.test('models that can roll back have no use for boundaries', async (t) => {
  const pipeline = await startFakePipeline({ ...WHOLE, canTrim: true });
  t.teardown(() => pipeline.close(0));
  t.equal(prepareOptionsOf(pipeline).findsBoundaries, false);
});

t.test('a boundary that the prompt does not have is refused where it is written', async (t) => {
  const pipeline = await startFakePipeline(WHOLE);
  t.teardown(() => pipeline.close(0));
  for (const wrong of [[0], [4], [2, 2], [3, 1]])
    await t.rejects(ask(pipeline, [1, 2, 3], OUTPUT, undefined, { boundaries: wrong }), RangeError, `${wrong}`);
});
