/** Conversations that were evicted and come back from host memory answer as if they had been computed whole, and are not computed again. */
import t from 'tap';
import { DirectDecode } from '../support/direct-decode.js';
import { EXACT } from '../support/greedy-check.js';
import { makePrompts } from '../support/prompts.js';
import { complete, startRealPipeline } from '../support/real-pipeline.js';
import type { TestModelName } from '../support/test-models.js';

t.setTimeout(300_000);

const MODELS: TestModelName[] = ['smollm2-q4_0', 'tiny-qwen3'];
const OUTPUT = { maxTokens: 8, ignoreEos: true };
const PROMPT_TOKENS = 100;
const CHATS = 4;

for (const model of MODELS) {
  const direct = new DirectDecode(model);
  t.teardown(() => direct.close());
  const chats = makePrompts(direct.vocabulary, CHATS, PROMPT_TOKENS);

  for (const kvLayout of ['private', 'shared'] as const) {
    t.test(`${model}, ${kvLayout}: four conversations over cells for two`, async (t) => {
      const pipeline = await startRealPipeline(model, {
        ...EXACT,
        kvLayout,
        contextTokens: 512,
        maxRunningRequests: 2,
        maxTotalTokens: kvLayout === 'private' ? 1024 : 512,
        hostPrefixCacheBytes: 512 * 2 ** 20,
      });
      t.teardown(() => pipeline.close(0));
      direct.createContext(pipeline.ready.ladder[0].spec);
      const turns = chats.map((chat) => [...chat]);
      for (const turn of turns) turn.push(...(await complete(pipeline, turn, OUTPUT, {})).tokens);
      const computedBefore = pipeline.deviceGauges().decodedTokens;
      for (const [i, turn] of turns.entries()) {
        const known = turn.length - 1;
        turn.push(...chats[(i + 1) % CHATS].slice(1, 11));
        const { tokens, cachedTokens } = await complete(pipeline, turn, OUTPUT, {});
        t.equal(cachedTokens, known, `chat ${i}: all that it had`);
        t.same(
          tokens,
          direct.generate(turn, tokens.length, { sampling: { ignoreEos: true } }),
          `chat ${i}: its answer`,
        );
      }
      const computed = pipeline.deviceGauges().decodedTokens - computedBefore;
      t.ok(computed <= CHATS * 20, `${computed} tokens were computed for the second turns`);
      const gauges = pipeline.schedulerGauges();
      t.ok(gauges.hostPrefixHits >= CHATS - 2, `${gauges.hostPrefixHits} came back from host memory`);
      t.ok(pipeline.deviceGauges().hostPrefixBytes > 0);
    });
  }
}
