import t from 'tap';
import type { TestModelName } from '../support/test-models.js';
import { EngineUnderTest, tokensFrom } from './engine-under-test.js';

// Model tests wait for the cores that other tests use.
t.setTimeout(180_000);

function opened(model: TestModelName): EngineUnderTest {
  const under = new EngineUnderTest(model);
  t.teardown(() => under.close());
  return under;
}

const qwen = opened('tiny-qwen3');

/** A prompt's tokens put into `sequence` with nothing sampled. */
function fill(under: EngineUnderTest, sequence: number, tokens: number[]): void {
  under.step({ segments: [{ sequence, request: 9, position: 0, tokens, sample: false }] });
}

/** Goes on from `computed` tokens with `rest`, greedily, for `count` tokens; leaves the sequence as it is. */
function goOn(under: EngineUnderTest, sequence: number, computed: number, rest: number[], count: number): number[] {
  const start = [{ sequence, request: 1 }];
  const tokens = [
    under.step({ starts: start, segments: [{ sequence, request: 1, position: computed, tokens: rest }] })[0].token,
  ];
  while (tokens.length < count) {
    const position = computed + rest.length + tokens.length - 1;
    tokens.push(under.step({ segments: [{ sequence, request: 1, position }] })[0].token);
  }
  return tokens;
}

for (const layout of ['shared', 'private'] as const) {
  // In the shared pool flash attention rounds by what else is there; without it, results are the same to the bit.
  const context = { layout, flashAttention: layout === 'shared' ? ('off' as const) : ('auto' as const) };

  t.test(`${layout}: cutting the end and going on is as if the end had never been`, async (t) => {
    qwen.createContext(context);
    const prefix = tokensFrom(1, 20);
    fill(qwen, 0, prefix);
    const expected = goOn(qwen, 0, 20, tokensFrom(2, 4), 5);
    qwen.createContext(context);
    fill(qwen, 0, [...prefix, ...tokensFrom(3, 30)]);
    qwen.step({ ops: [{ kind: 'remove', sequence: 0, from: 20 }] });
    t.equal(qwen.result('kvUsedTokens'), 20);
    t.same(goOn(qwen, 0, 20, tokensFrom(2, 4), 5), expected);
  });

  t.test(`${layout}: a copied prefix answers as a computed one, and outlives its source`, async (t) => {
    qwen.createContext(context);
    const whole = tokensFrom(4, 40);
    const rest = tokensFrom(5, 6);
    fill(qwen, 0, whole);
    const expected = goOn(qwen, 0, 40, rest, 5);
    qwen.createContext(context);
    fill(qwen, 0, whole);
    qwen.step({ ops: [{ kind: 'copy', sequence: 0, destination: 2 }] });
    t.equal(qwen.result('kvUsedTokens'), layout === 'shared' ? 40 : 80, 'shared cells count once');
    qwen.step({ ops: [{ kind: 'remove', sequence: 0 }] });
    t.equal(qwen.result('kvUsedTokens'), 40);
    t.same(goOn(qwen, 2, 40, rest, 5), expected);
  });

  t.test(`${layout}: a part of a prefix can be copied`, async (t) => {
    qwen.createContext(context);
    const whole = tokensFrom(6, 40);
    fill(qwen, 3, whole.slice(0, 25));
    const expected = goOn(qwen, 3, 25, tokensFrom(7, 3), 4);
    qwen.createContext(context);
    fill(qwen, 0, whole);
    qwen.step({ ops: [{ kind: 'copy', sequence: 0, destination: 3, from: 0, to: 25 }] });
    t.same(goOn(qwen, 3, 25, tokensFrom(7, 3), 4), expected);
  });

  t.test(`${layout}: a record's operations come before its tokens, in order`, async (t) => {
    qwen.createContext(context);
    const whole = tokensFrom(8, 30);
    fill(qwen, 0, whole);
    const expected = goOn(qwen, 0, 30, tokensFrom(9, 2), 1);
    qwen.createContext(context);
    fill(qwen, 0, [...whole, ...tokensFrom(10, 10)]);
    fill(qwen, 1, tokensFrom(11, 12));
    const samples = qwen.step({
      ops: [
        { kind: 'evict', sequence: 1 },
        { kind: 'remove', sequence: 0, from: 30 },
        { kind: 'copy', sequence: 0, destination: 1 },
        { kind: 'evict', sequence: 0 },
      ],
      starts: [{ sequence: 1, request: 1 }],
      segments: [{ sequence: 1, request: 1, position: 30, tokens: tokensFrom(9, 2) }],
    });
    t.same(
      samples.map(({ token }) => token),
      expected,
    );
    t.equal(qwen.result('kvUsedTokens'), 32);
  });

  t.test(`${layout}: a sequence saved and restored, elsewhere and in another context, goes on as before`, async (t) => {
    qwen.createContext(context);
    const prefix = tokensFrom(12, 33);
    fill(qwen, 0, prefix);
    const state = qwen.engine.saveSequence(0);
    const expected = goOn(qwen, 0, 33, tokensFrom(13, 3), 4);
    t.throws(() => qwen.engine.restoreSequence(0, state), { code: 'wrong_state' }, 'only where nothing is');
    qwen.createContext({ ...context, ubatchTokens: 32 });
    t.equal(qwen.engine.restoreSequence(2, state), true);
    t.same(goOn(qwen, 2, 33, tokensFrom(13, 3), 4), expected);
    t.throws(() => qwen.engine.saveSequence(4), { code: 'invalid_argument' });
  });
}

t.test('a state that does not fit, or is none, is not restored and leaves nothing', async (t) => {
  qwen.createContext({ cells: 1024 });
  const prefix = tokensFrom(14, 250);
  fill(qwen, 0, prefix);
  qwen.step({ segments: [{ sequence: 0, request: 9, position: 250, tokens: prefix, sample: false }] });
  const state = qwen.engine.saveSequence(0);
  qwen.createContext({ cells: 256 });
  t.equal(qwen.engine.restoreSequence(0, state), false);
  t.equal(qwen.engine.restoreSequence(0, new Uint8Array(100)), false);
  t.equal(qwen.engine.restoreSequence(0, state.slice(0, state.length >> 1)), false);
  fill(qwen, 1, prefix);
  t.equal(qwen.result('kvUsedTokens'), 250);
});

t.test('a copied stream can be saved after the decode that carries the copy out', async (t) => {
  qwen.createContext({ layout: 'private' });
  fill(qwen, 0, tokensFrom(15, 10));
  qwen.step({ ops: [{ kind: 'copy', sequence: 0, destination: 1 }] });
  t.throws(() => qwen.engine.saveSequence(1), { code: 'wrong_state' });
  fill(qwen, 2, tokensFrom(16, 2));
  t.ok(qwen.engine.saveSequence(1).length > 0);
});

for (const model of ['tiny-mamba', 'tiny-hybrid', 'gemma3-270m'] as const) {
  t.test(`${model}: what cannot be cut is refused; whole sequences come, go and are copied`, async (t) => {
    const under = opened(model);
    under.createContext();
    const prefix = tokensFrom(17, 20);
    fill(under, 0, prefix);
    t.throws(() => under.step({ ops: [{ kind: 'remove', sequence: 0, from: 10 }] }), {
      code: 'invalid_record',
      message: /cuts/,
    });
    t.throws(() => under.step({ ops: [{ kind: 'copy', sequence: 0, destination: 1, to: 10 }] }), {
      code: 'invalid_record',
    });
    under.step({ ops: [{ kind: 'copy', sequence: 0, destination: 1 }] });
    const state = under.engine.saveSequence(0);
    const expected = goOn(under, 0, 20, tokensFrom(18, 3), 4);
    t.same(goOn(under, 1, 20, tokensFrom(18, 3), 4), expected, 'the copy');
    under.step({ ops: [0, 1].map((sequence) => ({ kind: 'evict' as const, sequence })) });
    t.equal(under.result('kvUsedTokens'), 0);
    t.ok(under.engine.restoreSequence(3, state));
    t.same(goOn(under, 3, 20, tokensFrom(18, 3), 4), expected, 'restored');
    under.close();
  });
}
