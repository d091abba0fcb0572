/** Drafts: tokens of a segment that are guesses, checked by the samples before them. */
import t from 'tap';
import type { SamplingParams } from '../../src/shared/sampling.js';
import { SAMPLE_FLAG, SAMPLE_FLAGS_DONE } from '../../src/shared/step-output.js';
import { EngineUnderTest, tokensFrom } from './engine-under-test.js';

// Model tests wait for the cores that other tests use.
t.setTimeout(180_000);

const under = new EngineUnderTest('tiny-qwen3');
t.teardown(() => under.close());

const PROMPT = tokensFrom(40, 30);
const COUNT = 24;
/** Several rows of a sequence may round otherwise than one; this model's answers do not lie that close together. */
const EXACT = { layout: 'private', cells: 256, flashAttention: 'off' } as const;

/** The same request with drafts, of which `isRight` says whether the guess of that output is the right one. */
function withDrafts(expected: number[], drafts: number, isRight: (at: number) => boolean, sampling = {}) {
  const sequence = 1;
  const tokens: number[] = [];
  const cells: number[] = [];
  let steps = 1;
  let flags = 0;
  const take = (samples: ReturnType<EngineUnderTest['step']>) => {
    for (const sample of samples) {
      tokens.push(sample.token);
      flags |= sample.flags;
    }
    cells.push(under.result('kvUsedTokens') - PROMPT.length - tokens.length + 1);
  };
  const starts = [{ sequence, request: 1, sampling }];
  take(under.step({ starts, segments: [{ sequence, request: 1, position: 0, tokens: PROMPT }] }));
  while (tokens.length < COUNT && (flags & SAMPLE_FLAGS_DONE) === 0) {
    const guesses = Array.from({ length: drafts }, (_, i) => {
      const at = tokens.length + i;
      return isRight(at) ? (expected[at] ?? 7) : ((expected[at] ?? 7) + 1) % under.vocabularySize;
    });
    const position = PROMPT.length + tokens.length - 1;
    const segment = { sequence, request: 1, position, tokens: [tokens[tokens.length - 1], ...guesses] };
    take(under.step({ segments: [{ ...segment, areDrafts: true }] }));
    steps++;
  }
  const ops = [
    { kind: 'stop' as const, sequence },
    { kind: 'remove' as const, sequence },
  ];
  under.step({ ops });
  return { tokens, steps, flags, cells: cells.filter((difference) => difference !== 0) };
}

const KINDS: Record<string, Partial<SamplingParams>> = {
  greedy: {},
  'drawn, with penalties': { temperature: 0.9, seed: 5, topP: 0.9, repeatPenalty: 1.3, penaltyLastTokens: 16 },
  'with a grammar': { temperature: 0.7, seed: 3, grammar: 'root ::= [a-f0-9 ]+' },
};

for (const [kind, sampling] of Object.entries(KINDS)) {
  t.test(`right, wrong and mixed drafts change no token: ${kind}`, async (t) => {
    under.createContext(EXACT);
    const expected = under.generate(PROMPT, COUNT, sampling);
    for (const drafts of [1, 3]) {
      const right = withDrafts(expected, drafts, () => true, sampling);
      t.same(right.tokens.slice(0, expected.length), expected);
      t.ok(right.steps <= 1 + Math.ceil((expected.length - 1) / (1 + drafts)), `${right.steps} steps`);
      const wrong = withDrafts(expected, drafts, () => false, sampling);
      t.same(wrong.tokens, expected);
      t.equal(wrong.steps, expected.length);
      const mixed = withDrafts(expected, drafts, (at) => at % 3 !== 0, sampling);
      t.same(mixed.tokens.slice(0, expected.length), expected);
      t.same(
        [...right.cells, ...wrong.cells, ...mixed.cells],
        [],
        'every token but the newest has a cell, and nothing else',
      );
    }
  });
}

t.test('a request ends at its limit although right drafts follow', async (t) => {
  under.createContext(EXACT);
  const expected = under.generate(PROMPT, 12);
  const { tokens, flags, cells } = withDrafts(expected, 3, () => true, { maxTokens: 6 });
  t.same(tokens, expected.slice(0, 6));
  t.equal(flags, SAMPLE_FLAG.maxTokens);
  t.same(cells, []);
});

t.test('a wrong draft leaves nothing that a later token or another sequence could see', async (t) => {
  under.createContext({ layout: 'shared', cells: 256, flashAttention: 'off' });
  const expected = under.generate(PROMPT, 3);
  const [first] = under.step({
    starts: [0, 1].map((sequence) => ({ sequence, request: 1 + sequence })),
    segments: [0, 1].map((sequence) => ({ sequence, request: 1 + sequence, position: 0, tokens: PROMPT })),
  });
  const position = PROMPT.length;
  const drafted = under.step({
    segments: [
      { sequence: 0, request: 1, position, tokens: [first.token, (expected[1] + 1) % 1000, 5], areDrafts: true },
      { sequence: 1, request: 2, position },
    ],
  });
  t.same(
    drafted.map(({ sequence, token }) => [sequence, token]),
    [
      [0, expected[1]],
      [1, expected[1]],
    ],
  );
  const next = under.step({
    segments: [0, 1].map((sequence) => ({ sequence, request: 1 + sequence, position: position + 1 })),
  });
  t.same(
    next.map(({ token }) => token),
    [expected[2], expected[2]],
  );
});

t.test('drafts that the engine could not take are refused before anything is done', async (t) => {
  under.createContext(EXACT);
  const [first] = under.step({
    starts: [{ sequence: 0, request: 1 }],
    segments: [{ sequence: 0, request: 1, position: 0, tokens: PROMPT }],
  });
  const drafts = (count: number) => [first.token, ...tokensFrom(50, count)];
  const segment = (count: number) => ({ sequence: 0, request: 1, position: PROMPT.length, tokens: drafts(count) });
  t.throws(() => under.step({ segments: [{ ...segment(4), areDrafts: true }] }), {
    message: /5 samples; the context takes 4/,
  });
  t.equal(under.step({ segments: [{ ...segment(3), areDrafts: true }] })[0].sequence, 0);
});
