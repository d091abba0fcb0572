/** How tokens are chosen, through the whole pipeline, on a trained model. In private streams without flash attention, where the odds of a
 * token do not depend on what else runs: a seed then gives the same text alone and beside others. */
import t from 'tap';
import { openVocabulary } from '../../src/shared/native-addon.js';
import type { TemplateInputs } from '../../src/shared/template-inputs.js';
import { EXACT } from '../support/greedy-check.js';
import { makePrompts } from '../support/prompts.js';
import { type Completion, complete, keepBusy, startRealPipeline } from '../support/real-pipeline.js';

const pipeline = await startRealPipeline('smollm2-q4_0', { ...EXACT, maxRunningRequests: 4, contextTokens: 512 });
t.teardown(() => pipeline.close(0));
const vocabulary = openVocabulary(pipeline.model.handle);

function chat(content: string): Int32Array {
  const inputs: TemplateInputs = {
    messages: [{ role: 'user', content }],
    addGenerationPrompt: true,
    continueFinalMessage: false,
    templateKwargs: {},
  };
  return vocabulary.tokenize(vocabulary.applyTemplate(JSON.stringify(inputs)), true, true);
}

function textOf({ tokens }: Pick<Completion, 'tokens'>): string {
  const { offsets, bytes } = pipeline.pieces;
  return Buffer.concat(tokens.map((token) => bytes.subarray(offsets[token], offsets[token + 1]))).toString();
}

const story = vocabulary.tokenize('Once upon a time there was a', true, false);
const drawn = { maxTokens: 16, temperature: 1.2, topK: 100, topP: 0.95, minP: 0.01 };
const penalties = { repeatPenalty: 1.1, frequencyPenalty: 0.4, presencePenalty: 0.2, penaltyLastTokens: -1 };

t.test('a seed gives the same text alone and beside others; another seed another one', async (t) => {
  const sampling = { ...drawn, ...penalties, seed: 1234 };
  const alone = await complete(pipeline, story, sampling);
  t.same((await complete(pipeline, story, sampling)).tokens, alone.tokens, 'again');
  const others = keepBusy(pipeline, makePrompts(vocabulary, 2, 10, 30));
  const [beside, other] = await Promise.all([
    complete(pipeline, story, sampling),
    complete(pipeline, story, { ...sampling, seed: 1235 }),
  ]);
  await others.stop();
  t.same(beside.tokens, alone.tokens, 'beside three others');
  t.notSame(other.tokens, alone.tokens, 'another seed');
  const texts = new Set<string>();
  for (let seed = 0; seed < 4; seed++)
    texts.add(textOf(await complete(pipeline, story, { ...sampling, seed, maxTokens: 6 })));
  t.equal(texts.size, 4, [...texts].join(' | '));
});

t.test('a logit bias bans tokens and forces one', async (t) => {
  const plain = await complete(pipeline, story, { maxTokens: 12 });
  const banned = [...new Set(plain.tokens)];
  const without = await complete(pipeline, story, {
    maxTokens: 12,
    logitBias: banned.map((token) => [token, -100] as const),
  });
  t.equal(without.tokens.length, 12);
  t.same(
    without.tokens.filter((token) => banned.includes(token)),
    [],
  );
  const [forced] = vocabulary.tokenize(' whale', false, false);
  const always = await complete(pipeline, story, { ...drawn, maxTokens: 5, logitBias: [[forced, 100]] });
  t.same(always.tokens, Array(5).fill(forced));
});

t.test('a grammar is obeyed, and its end is the end', async (t) => {
  for (const seed of [1, 2, 3]) {
    const answer = await complete(pipeline, chat('Is the sea deep?'), {
      maxTokens: 20,
      temperature: 1.5,
      seed,
      grammar: 'root ::= "yes" | "no"',
    });
    t.match(textOf(answer), /^(yes|no)$/);
    t.equal(answer.reason, 'stop');
  }
  const object = await complete(pipeline, chat('Give me a ship as JSON.'), {
    maxTokens: 60,
    grammar: 'root ::= "{\\"name\\": \\"" [A-Za-z ]{1,12} "\\", \\"tons\\": " [1-9] [0-9]{0,4} "}"',
  });
  t.equal(object.reason, 'stop');
  t.match(JSON.parse(textOf(object)), { name: String, tons: Number });
});

t.test('logprobs are those of the distribution', async (t) => {
  const greedy = await complete(pipeline, chat('What is the capital of France?'), { maxTokens: 7, logprobs: 20 });
  for (const { token, logprob, top } of greedy.samples) {
    t.equal(top.length, 20);
    t.equal(top[0].token, token, 'greedy takes the best');
    t.equal(top[0].logprob, logprob);
    t.ok(top.every((one, i) => i === 0 || one.logprob <= top[i - 1].logprob));
    t.equal(new Set(top.map((one) => one.token)).size, 20);
    const mass = top.reduce((sum, one) => sum + Math.exp(one.logprob), 0);
    t.ok(mass > 0.8 && mass <= 1.0001, `the best twenty have ${mass.toFixed(3)} of the odds`);
  }
  const some = await complete(pipeline, story, { ...drawn, seed: 3, logprobs: 2 });
  for (const { token, logprob, top } of some.samples) {
    t.equal(top.length, 2);
    t.ok(logprob <= 0);
    const listed = top.find((one) => one.token === token);
    if (listed) t.equal(listed.logprob, logprob);
  }
  const none = await complete(pipeline, story, { maxTokens: 2 });
  t.ok(none.samples.every(({ logprob, top }) => Number.isNaN(logprob) && top.length === 0));
});

t.test('the model ends its turn, unless that is to be ignored', async (t) => {
  const question = chat('What is the capital of France?');
  const answer = await complete(pipeline, question, { maxTokens: 200 });
  t.equal(answer.reason, 'stop');
  t.ok(answer.tokens.length > 0 && answer.tokens.length < 200);
  t.notOk(
    answer.tokens.some((token) => vocabulary.isEndOfGeneration(token)),
    'the end is not part of the text',
  );

  const further = answer.tokens.length + 8;
  const ignoring = await complete(pipeline, question, { maxTokens: further, ignoreEos: true });
  t.equal(ignoring.reason, 'length');
  t.equal(ignoring.tokens.length, further);
  t.same(ignoring.tokens.slice(0, answer.tokens.length), answer.tokens);
  t.notOk(ignoring.tokens.some((token) => vocabulary.isEndOfGeneration(token)));

  const exact = await complete(pipeline, question, { maxTokens: answer.tokens.length });
  t.equal(exact.reason, 'length', 'the limit came first');
});
