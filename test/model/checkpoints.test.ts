/**
 * Models whose sequences cannot be cut back go on from checkpoints at the ends of messages: they answer as if everything had been computed
 * anew, and compute what is new alone. Prompts are the models' own templates'; Gemma's test model has none, and gets boundaries by hand.
 */
import t, { type Test } from 'tap';
import type { WorkerPipeline } from '../../src/main/pipeline.js';
import type { ConfigInput } from '../../src/shared/config.js';
import { runPrepareJob } from '../../src/workers/prepare-job.js';
import { DirectDecode } from '../support/direct-decode.js';
import { EXACT } from '../support/greedy-check.js';
import { makePrompts } from '../support/prompts.js';
import { complete, startRealPipeline } from '../support/real-pipeline.js';
import type { TestModelName } from '../support/test-models.js';

t.setTimeout(300_000);

const OUTPUT = { maxTokens: 8, ignoreEos: true };
/** As in greedy-prefix.test.ts. */
const SHORTFALL_MAX = 0.5;

interface Prompt {
  tokens: number[];
  boundaries: number[];
}

type Message = { role: string; content: string };

/** The prompt of a conversation, by the model's template or by one that joins tokens of known texts. */
function promptOf(direct: DirectDecode, model: TestModelName, messages: Message[]): Prompt {
  if (model !== 'gemma3-270m') {
    const inputsJson = JSON.stringify({ messages });
    const result = runPrepareJob(direct.vocabulary, { kind: 'chat', inputsJson, findsBoundaries: true });
    if (!result.ok) throw new Error(result.message);
    return { tokens: [...result.tokens], boundaries: result.boundaries ?? [] };
  }
  const tokens: number[] = [];
  const ends = messages.map(({ content }, i) => {
    tokens.push(...direct.vocabulary.tokenize(content, i === 0, false));
    return tokens.length;
  });
  return {
    tokens: [...tokens, ...direct.vocabulary.tokenize('\nAnswer:', false, false)],
    boundaries: [ends[0], ends[ends.length - 1]],
  };
}

for (const model of ['tiny-hybrid', 'tiny-mamba', 'gemma3-270m'] as TestModelName[]) {
  const direct = new DirectDecode(model);
  t.teardown(() => direct.close());
  const text = (tokens: number[]) => {
    const { offsets, bytes } = direct.vocabulary.pieces(false);
    return tokens.map((token) => Buffer.from(bytes.subarray(offsets[token], offsets[token + 1])).toString()).join('');
  };
  // Longer than Gemma's window, so that what lies behind it is really gone.
  const systemTokens = model === 'gemma3-270m' ? 600 : 150;
  const [system, question, other, third] = makePrompts(direct.vocabulary, 4, 70).map(text);
  const long = text(makePrompts(direct.vocabulary, 1, systemTokens)[0]);
  const opening: Message = { role: 'system', content: `${system}\n${long}` };
  const user = (content: string): Message => ({ role: 'user', content });

  const ask = async (t: Test, pipeline: WorkerPipeline, { tokens, boundaries }: Prompt, name: string) => {
    const answer = await complete(pipeline, tokens, OUTPUT, { boundaries });
    if (model === 'gemma3-270m') {
      const worst = Math.max(...direct.shortfalls(tokens, answer.tokens, { ignoreEos: true }));
      t.ok(worst <= SHORTFALL_MAX, `${name}: ${worst.toFixed(3)} below the engine's own choice at most`);
    } else {
      t.same(answer.tokens, direct.generate(tokens, OUTPUT.maxTokens, { sampling: { ignoreEos: true } }), name);
    }
    return answer;
  };
  const start = async (t: Test, settings: ConfigInput) => {
    const pipeline = await startRealPipeline(model, {
      ...EXACT,
      contextTokens: 2048,
      maxRunningRequests: 4,
      ...settings,
    });
    t.teardown(() => pipeline.close(0));
    direct.createContext(pipeline.ready.ladder[0].spec, pipeline.ready.plan.chunkTokens);
    return pipeline;
  };

  /** What the books count is what the states take, or more where a window is counted with the engine's room beside it. */
  const checkBytes = (t: Test, pipeline: WorkerPipeline, { boundaries }: Prompt) => {
    const { cellBytes, stateBytes } = pipeline.ready.stateSize;
    const counted = boundaries.slice(0, 2).reduce((sum, count) => sum + count * (cellBytes + 32) + stateBytes, 0);
    const { hostPrefixBytes } = pipeline.deviceGauges();
    t.ok(hostPrefixBytes <= counted && hostPrefixBytes >= counted * 0.3, `${hostPrefixBytes} of ${counted} bytes`);
  };

  for (const kvLayout of ['private', 'shared'] as const) {
    t.test(`${model}, ${kvLayout}: two conversations with one system prompt, and a second turn`, async (t) => {
      const pipeline = await start(t, { kvLayout });
      const one = promptOf(direct, model, [opening, user(question)]);
      t.equal((await ask(t, pipeline, one, 'first conversation')).cachedTokens, 0);
      checkBytes(t, pipeline, one);
      const two = promptOf(direct, model, [opening, user(other)]);
      t.ok(two.boundaries[0] > systemTokens, 'the system prompt is common');
      t.equal((await ask(t, pipeline, two, 'second conversation')).cachedTokens, two.boundaries[0]);

      const turn = promptOf(direct, model, [
        opening,
        user(question),
        { role: 'assistant', content: 'Otherwise.' },
        user(third),
      ]);
      const before = pipeline.deviceGauges().decodedTokens;
      const answer = await ask(t, pipeline, turn, 'second turn, with another answer than the model gave');
      t.equal(answer.cachedTokens, one.boundaries[1], 'all of the first turn');
      const computed = pipeline.deviceGauges().decodedTokens - before;
      t.ok(computed <= turn.tokens.length - one.boundaries[1] + OUTPUT.maxTokens, `${computed} tokens were computed`);

      const again = await complete(pipeline, turn.tokens, OUTPUT, { boundaries: turn.boundaries });
      t.same(again.tokens, answer.tokens, 'the same again');
      t.equal(again.cachedTokens, turn.boundaries[1]);
      t.ok(pipeline.deviceGauges().hostPrefixBytes > 0);
      t.ok(pipeline.schedulerGauges().hostPrefixHits >= 3);
    });
  }

  // Each answer of Gemma's takes seconds to check, and these are about the scheduler.
  if (model === 'gemma3-270m') continue;

  t.test(`${model}: a checkpoint that is taken beside a running answer`, async (t) => {
    const pipeline = await start(t, {});
    const running = promptOf(direct, model, [user(other)]);
    const one = promptOf(direct, model, [opening, user(question)]);
    const two = promptOf(direct, model, [opening, user(third)]);
    let begun: Promise<unknown> | undefined;
    const trunk = await complete(pipeline, running.tokens, { maxTokens: 60, ignoreEos: true }, {}, (count) => {
      if (count === 2)
        begun = Promise.all([one, two].map((prompt, i) => ask(t, pipeline, prompt, `conversation ${i} beside it`)));
    });
    await begun;
    t.equal(trunk.tokens.length, 60);
  });

  t.test(`${model}: without room for checkpoints`, async (t) => {
    const pipeline = await start(t, { checkpointCacheBytes: 0 });
    const one = promptOf(direct, model, [opening, user(question)]);
    await ask(t, pipeline, one, 'first conversation');
    const two = promptOf(direct, model, [opening, user(other)]);
    t.equal((await ask(t, pipeline, two, 'second conversation')).cachedTokens, 0);
    t.equal(pipeline.schedulerGauges().hostPrefixSaves, 0);
  });
}
