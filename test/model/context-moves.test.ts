/**
 * The context is replaced under running requests, and their answers are those of requests that saw no move. Keys and values are kept in 32
 * bits, so that little text is enough to climb a rung.
 */
import { readdirSync } from 'node:fs';
import t from 'tap';
import type { WorkerPipeline } from '../../src/main/pipeline.js';
import { openVocabulary } from '../../src/shared/native-addon.js';
import type { SamplingParams } from '../../src/shared/sampling.js';
import { ContextKeeper } from '../../src/workers/context-keeper.js';
import { SequenceSpill } from '../../src/workers/sequence-spill.js';
import { SMALL_CONTEXT } from '../addon/engine-under-test.js';
import { DirectDecode } from '../support/direct-decode.js';
import { makePrompts } from '../support/prompts.js';
import { type Completion, complete, startRealPipeline } from '../support/real-pipeline.js';
import type { TestModelName } from '../support/test-models.js';

// Model tests wait for the cores that other tests use.
t.setTimeout(180_000);

/** Roundings depend neither on what else runs nor on where in memory it lies: answers must be equal to the token. */
const STREAMS = {
  contextTokens: 2048,
  maxRunningRequests: 4,
  kvLayout: 'private',
  kvType: 'f32',
  flashAttention: 'off',
} as const;
const CELLS_AT_START = 1024;
const SHORT_TOKENS = 32;
const LONG_TOKENS = 12;
/** Answers of any length, so that the grammar is at work before the move and after it. */
const WORDS = 'root ::= ([a-z]+ " " [a-z]+ ", ")+';
const WORDS_BEGUN = /^([a-z]+ [a-z]+, )*[a-z]*( [a-z]*,?)?$/;

interface Ask {
  prompt: number[];
  sampling: Partial<SamplingParams>;
}

function asksFor(pipeline: WorkerPipeline): { short: Ask[]; long: Ask } {
  const vocabulary = openVocabulary(pipeline.model.handle);
  const [plain, drawn, bound] = makePrompts(vocabulary, 3, 20, 60);
  const [long] = makePrompts(vocabulary, 1, CELLS_AT_START - 8);
  const penalties = { repeatPenalty: 1.2, frequencyPenalty: 0.3, presencePenalty: 0.4, penaltyLastTokens: 48 };
  return {
    short: [
      { prompt: plain, sampling: { maxTokens: SHORT_TOKENS } },
      {
        prompt: drawn,
        sampling: { maxTokens: SHORT_TOKENS, temperature: 1, topK: 50, topP: 0.9, seed: 77, ...penalties },
      },
      { prompt: bound, sampling: { maxTokens: SHORT_TOKENS, temperature: 0.9, seed: 5, grammar: WORDS } },
    ],
    long: { prompt: long, sampling: { maxTokens: LONG_TOKENS } },
  };
}

/** The short ones first; when all of them speak, the long one comes, for which the first context is too small. */
async function run(pipeline: WorkerPipeline): Promise<Completion[]> {
  const { short, long } = asksFor(pipeline);
  let speaking = 0;
  let allSpeak = () => {};
  const everyoneSpeaks = new Promise<void>((resolve) => {
    allSpeak = resolve;
  });
  const running = short.map(({ prompt, sampling }) =>
    complete(pipeline, prompt, sampling, {}, (count) => {
      if (count === 3 && ++speaking === short.length) allSpeak();
    }),
  );
  // One that ends early fails the test later; it must not hang it.
  await Promise.race([everyoneSpeaks, ...running]);
  return Promise.all([...running, complete(pipeline, long.prompt, long.sampling, {})]);
}

function textOf({ pieces }: WorkerPipeline, { tokens }: Completion): string {
  const bytes = tokens.map((token) => pieces.bytes.subarray(pieces.offsets[token], pieces.offsets[token + 1]));
  return Buffer.concat(bytes).toString();
}

t.test(
  'four streams are carried into a larger context: greedy, drawn with penalties, bound by a grammar',
  async (t) => {
    const moves: string[] = [];
    const log = (_level: string, message: string) => message.startsWith('context ') && moves.push(message);
    const growing = await startRealPipeline('smollm2-q4_0', STREAMS, { log });
    t.teardown(() => growing.close(0));
    t.same(
      growing.ready.ladder.map(({ cells }) => cells),
      [CELLS_AT_START, 2 * CELLS_AT_START],
    );
    const moved = await run(growing);
    t.equal(moves.length, 1);
    t.match(moves[0], /rung 0 → rung 1, 2048 cells: 4 of 4 sequences carried over/);

    const standing = await startRealPipeline('smollm2-q4_0', STREAMS, { fixedContext: true });
    t.teardown(() => standing.close(0));
    t.equal(standing.ready.ladder.length, 1);
    const expected = await run(standing);
    for (const [i, kind] of ['greedy', 'drawn with penalties', 'bound by a grammar', 'long'].entries()) {
      t.equal(moved[i].reason, 'length');
      t.same(moved[i].tokens, expected[i].tokens, kind);
    }
    t.match(textOf(growing, moved[2]), WORDS_BEGUN, 'the grammar holds to the end');
    t.notSame(moved[1].tokens, moved[0].tokens.slice(0, SHORT_TOKENS));
  },
);

// In the shared pool a sum's order follows from where the cells lie, and they lie elsewhere after a move. Measured: an answer's tokens were
// up to 0.5 below the best; behind another text they would be 15 below it, as most of the vocabulary is.
const SHORTFALL_MAX = 1;

t.test('a shared pool grows under four live sequences', async (t) => {
  const moves: string[] = [];
  const log = (_level: string, message: string) => message.startsWith('context ') && moves.push(message);
  const settings = {
    contextTokens: 512,
    maxRunningRequests: 4,
    maxTotalTokens: 2048,
    kvLayout: 'shared',
    kvType: 'f32',
    flashAttention: 'off',
  } as const;
  const pipeline = await startRealPipeline('fat-kv', settings, { log });
  t.teardown(() => pipeline.close(0));
  t.same(
    pipeline.ready.ladder.map(({ cells }) => cells),
    [1024, 2048],
  );
  const direct = new DirectDecode('fat-kv');
  t.teardown(() => direct.close());
  const prompts = makePrompts(direct.vocabulary, 4, 228, 232);
  const answers = await Promise.all(prompts.map((prompt) => complete(pipeline, prompt, { maxTokens: 36 }, {})));
  t.equal(moves.length, 1);
  t.match(moves[0], /rung 0 → rung 1, 2048 cells: 4 of 4 sequences carried over/);
  direct.createContext(pipeline.ready.ladder[0].spec);
  answers.forEach(({ tokens, reason }, i) => {
    t.equal(reason, 'length');
    const worst = Math.max(...direct.shortfalls(prompts[i], tokens));
    t.ok(worst <= SHORTFALL_MAX, `answer ${i}: ${worst.toFixed(3)} below the engine's own choice at most`);
  });
});

const KINDS: TestModelName[] = ['tiny-qwen3', 'tiny-mamba', 'tiny-hybrid', 'gemma3-270m'];

/** Room for what a move takes: as long and as much as it wants. */
const AT_LEISURE = { spillMs: 60_000, spillBytes: 2 ** 20, cacheBytes: 2 ** 20 };
const WAYS = {
  'in memory': { ...AT_LEISURE, copied: [{ from: 0, to: 0 }], spilled: [] },
  'through a file': { ...AT_LEISURE, copied: [], spilled: [{ from: 0, to: 0 }] },
};

for (const [model, layout, way] of KINDS.flatMap((model) =>
  (['shared', 'private'] as const).flatMap((layout) =>
    Object.entries(WAYS).map((way) => [model, layout, way] as const),
  ),
)) {
  t.test(`${model}, ${layout}, ${way[0]}: what a sequence remembers survives the move`, async (t) => {
    const direct = new DirectDecode(model);
    t.teardown(() => direct.close());
    const small = { ...SMALL_CONTEXT, layout, flashAttention: 'off' as const };
    const ladder = [small, { ...small, cells: 2 * small.cells }];
    const folder = t.testdir();
    const spill = new SequenceSpill(direct.engine, folder, t.fail);
    const keeper = new ContextKeeper(direct.engine, ladder, 0, spill, t.fail, () => {});
    const [prompt] = makePrompts(direct.vocabulary, 1, 100);
    direct.createContext(small);
    const expected = direct.generate(prompt, 16);
    t.same(
      direct.generate(prompt, 16, {
        afterToken: (count) => {
          const rung = { 6: 1, 11: 0 }[count];
          if (rung === undefined) return false;
          t.same(keeper.move(rung, way[1]).carried, [0], `to rung ${rung}`);
          t.same(readdirSync(folder), [], 'nothing is left on the disk');
          return true;
        },
      }),
      expected,
    );
  });
}
