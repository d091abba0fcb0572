import t from 'tap';
import { EngineLatch } from '../support/engine-latch.js';
import { ask, startFakePipeline, textTokens } from '../support/fake-pipeline.js';

const SETTINGS = {
  contextTokens: 512,
  maxRunningRequests: 4,
  kvLayout: 'private',
  maxTotalTokens: 2048,
  hostPrefixCacheBytes: 'auto',
} as const;
/** A prompt token takes long enough that a copy is worth it. */
const SLOW = { deviceKind: 'cpu', perTokenDelayMicros: 100 } as const;
/** What the tier leaves free on the fake machine of 32 GiB: 4 %, and 32 MiB of growth. */
const MARGIN_MIB = 1343;
const CHATS = 16;
const TURNS = 4;
const prompt = (chat: number) => Array.from(textTokens(`chat ${String.fromCharCode(65 + chat)} `.repeat(25)));

t.test('sixteen conversations over cells for four: from the second turn on, none is computed again', async (t) => {
  const pipeline = await startFakePipeline(SLOW, SETTINGS);
  t.teardown(() => pipeline.close(0));
  const chats = Array.from({ length: CHATS }, (_, chat) => prompt(chat));
  let uncached = 0;
  for (let turn = 1; turn <= TURNS; turn++) {
    for (const chat of chats) {
      const { tokens, cachedTokens } = await ask(pipeline, chat, { maxTokens: 8, ignoreEos: true });
      if (turn > 1 && cachedTokens < chat.length - 20) uncached++;
      chat.push(...tokens, ...textTokens('go on'));
    }
  }
  t.equal(uncached, 0);
  const gauges = pipeline.schedulerGauges();
  t.ok(gauges.hostPrefixHits >= (TURNS - 1) * (CHATS - 4), `${gauges.hostPrefixHits} came back`);
  t.ok(pipeline.deviceGauges().hostPrefixBytes > 0);
  t.ok(gauges.hostPrefixBudgetBytes > 0);
});

t.test('off means off', async (t) => {
  const pipeline = await startFakePipeline(SLOW, { ...SETTINGS, hostPrefixCacheBytes: 0 });
  t.teardown(() => pipeline.close(0));
  for (let chat = 0; chat < 8; chat++) await ask(pipeline, prompt(chat), { maxTokens: 2 });
  t.equal(pipeline.schedulerGauges().hostPrefixSaves, 0);
  t.ok(pipeline.schedulerGauges().evictions > 0);
});

t.test('what is saved goes back with the idle context', async (t) => {
  const pipeline = await startFakePipeline(SLOW, { ...SETTINGS, idleReleaseMs: 300 });
  t.teardown(() => pipeline.close(0));
  for (let chat = 0; chat < 8; chat++) await ask(pipeline, prompt(chat), { maxTokens: 2 });
  t.ok(pipeline.deviceGauges().hostPrefixBytes > 0);
  while (pipeline.deviceGauges().kvBytes > 0) await new Promise((resolve) => setTimeout(resolve, 10));
  t.equal(pipeline.deviceGauges().hostPrefixBytes, 0);
  const { cachedTokens, reason } = await ask(pipeline, prompt(0), { maxTokens: 2, ignoreEos: true });
  t.same([cachedTokens, reason], [0, 'length']);
});

t.test('what is saved gives way to other programs before the context does', async (t) => {
  const latch = new EngineLatch();
  const fake = { ...SLOW, bytesPerToken: 64 * 1024, control: latch.buffer };
  const pipeline = await startFakePipeline(fake, SETTINGS);
  t.teardown(() => pipeline.close(0));
  const until = async (isSo: (savedBytes: number) => boolean) => {
    while (!isSo(pipeline.deviceGauges().hostPrefixBytes)) await new Promise((resolve) => setTimeout(resolve, 10));
  };
  for (let chat = 0; chat < 8; chat++) await ask(pipeline, prompt(chat), { maxTokens: 2 });
  const wholeBytes = pipeline.deviceGauges().hostPrefixBytes;
  t.ok(wholeBytes > 0);
  const epoch = pipeline.deviceGauges().contextEpoch;
  latch.systemAvailableMib(MARGIN_MIB + 20);
  await until((savedBytes) => savedBytes < wholeBytes);
  t.ok(pipeline.deviceGauges().hostPrefixBytes > 0, 'no more goes than must');
  latch.systemAvailableMib(MARGIN_MIB - 40);
  await until((savedBytes) => savedBytes === 0);
  t.equal(pipeline.deviceGauges().contextEpoch, epoch, 'the context stands');
  const { cachedTokens } = await ask(pipeline, [...prompt(7), 33], { maxTokens: 2 });
  t.equal(cachedTokens, prompt(7).length, 'with what is in its cells');
});
