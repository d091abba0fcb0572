/** The random-weight models are fit to test with: their greedy answers neither collapse nor ignore what came before. */
import t from 'tap';
import { openVocabulary } from '../../src/shared/native-addon.js';
import { EngineUnderTest } from '../addon/engine-under-test.js';
import type { TestModelName } from '../support/test-models.js';

const PROMPTS = ['The capital of France is', 'def add(a, b):\n    return', 'One, two, three, four,'];
const OUTPUT_TOKENS = 32;
const DISTINCT_TOKENS_MIN = 8;

const NAMES: TestModelName[] = ['tiny-qwen3', 'tiny-moe', 'tiny-mamba', 'tiny-hybrid', 'fat-kv'];

for (const name of NAMES) {
  t.test(name, async (t) => {
    const engine = new EngineUnderTest(name);
    t.teardown(() => engine.close());
    engine.createContext();
    const vocabulary = openVocabulary(engine.handle);
    const greedy = (text: string, count: number) =>
      engine.generate(vocabulary.tokenize(text, true, false), count, { temperature: 0 });
    for (const prompt of PROMPTS) {
      const tokens = greedy(prompt, OUTPUT_TOKENS);
      t.ok(new Set(tokens).size >= DISTINCT_TOKENS_MIN, `${new Set(tokens).size} of ${tokens.length} tokens differ`);
      t.strictSame(greedy(prompt, OUTPUT_TOKENS), tokens, 'and the same again');
    }
    // Two prompts that differ in their first word only: a cache that lost it would answer both alike.
    t.notSame(greedy('Seven brown dogs ran to the river', 8), greedy('Nine brown dogs ran to the river', 8));
  });
}
