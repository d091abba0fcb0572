/**
 * Drafts leave greedy answers the engine's own. Token for token they need not be those without drafts: several rows of one sequence are computed by
 * other kernels than a single row, as prompts are, and round otherwise. So each answer is laid into the mouth of the engine that decodes alone, by
 * hand, and no token may lie further below its choice than rounding explains.
 */
import t from 'tap';
import { DirectDecode } from '../support/direct-decode.js';
import { makePrompts } from '../support/prompts.js';
import { complete, startRealPipeline } from '../support/real-pipeline.js';

// Model tests wait for the cores that other tests use.
t.setTimeout(300_000);

const MODEL = 'smollm2-q4_0';
const MAX_TOKENS = 60;
/** In log-probability. Chosen: roundings move this model's by some hundredths; a cell that should not be there, by whole numbers. */
const ROUNDING = 0.1;

const TASKS = [
  'Repeat this list exactly:\n- red apples, 12 kg\n- green pears, 7 kg\n- yellow plums, 31 kg\n- black cherries, 4 kg',
  'Copy this line five times: The ship had lain at the quay since Tuesday.',
  'Write a for loop in C that prints the numbers from 1 to 20, then the same loop in Python.',
  'Tell me a story about a ship in a storm.',
];

const direct = new DirectDecode(MODEL);
t.teardown(() => direct.close());
const chats = TASKS.map((task) => `<|im_start|>user\n${task}<|im_end|>\n<|im_start|>assistant\n`);
const prompts = [
  ...chats.map((chat) => [...direct.vocabulary.tokenize(chat, true, true)]),
  ...makePrompts(direct.vocabulary, 2, 100, 200),
];

for (const kvLayout of ['private', 'shared'] as const) {
  t.test(`no token is further from the engine's choice than rounding: ${kvLayout}`, async (t) => {
    const pipeline = await startRealPipeline(MODEL, { kvLayout });
    t.teardown(() => pipeline.close(0));
    const answers: number[][] = [];
    for (const prompt of prompts) answers.push((await complete(pipeline, prompt, { maxTokens: MAX_TOKENS })).tokens);
    const { draftedTokens, acceptedDraftTokens } = pipeline.schedulerGauges();
    t.ok(acceptedDraftTokens > 20, `${acceptedDraftTokens} of ${draftedTokens} drafts were right`);
    t.ok(acceptedDraftTokens < draftedTokens, 'wrong ones were taken back too');

    await complete(pipeline, prompts[1], { maxTokens: MAX_TOKENS }, { noPrefixCache: true, noDrafts: true });
    t.equal(pipeline.schedulerGauges().draftedTokens, draftedTokens, 'a request that wants no drafts gets none');

    direct.createContext(pipeline.ready.plan.spec, pipeline.ready.plan.chunkTokens);
    answers.forEach((answer, i) => {
      const worst = Math.max(...direct.shortfalls(prompts[i], answer));
      t.ok(worst <= ROUNDING, `prompt ${i}: at most ${worst} below the best`);
    });
  });
}

t.test('switched off for the server, or without flash attention, there are none', async (t) => {
  for (const settings of [{ speculative: 'off' }, { flashAttention: 'off' }] as const) {
    const pipeline = await startRealPipeline(MODEL, settings);
    t.teardown(() => pipeline.close(0));
    await complete(pipeline, prompts[1], { maxTokens: MAX_TOKENS });
    t.equal(pipeline.schedulerGauges().draftedTokens, 0, JSON.stringify(settings));
  }
});
