import t from 'tap';
import { SAMPLE_FLAG, STEP_STATUS } from '../../src/shared/step-output.js';
import type { StepSample } from '../support/batch-record.js';
import type { TestModelName } from '../support/test-models.js';
import { EngineUnderTest, tokensFrom } from './engine-under-test.js';

// Model tests wait for the cores that other tests use.
t.setTimeout(180_000);

const MODELS: TestModelName[] = ['tiny-qwen3', 'tiny-moe', 'tiny-mamba', 'tiny-hybrid'];

for (const model of MODELS) {
  t.test(model, async (t) => {
    const under = new EngineUnderTest(model);
    t.teardown(() => under.close());

    for (const layout of ['shared', 'private'] as const) {
      t.test(`${layout}: placeholders give what a plain loop gives`, async (t) => {
        under.createContext({ layout });
        const prompt = tokensFrom(1, 20);
        const expected = under.generate(prompt, 12);
        const [first] = under.step({
          starts: [{ sequence: 2, request: 5 }],
          segments: [{ sequence: 2, request: 5, position: 0, tokens: prompt }],
        });
        const actual = [first.token];
        for (let index = 1; index < expected.length; index++) {
          const [sample] = under.step({ segments: [{ sequence: 2, request: 5, position: prompt.length + index - 1 }] });
          t.match(sample, { sequence: 2, request: 5 });
          actual.push(sample.token);
        }
        t.same(actual, expected);
        t.equal(under.result('kvUsedTokens'), prompt.length + expected.length - 1);
      });

      t.test(`${layout}: a prompt in chunks gives what it gives whole`, async (t) => {
        under.createContext({ layout });
        const prompt = tokensFrom(2, 30);
        const expected = under.generate(prompt, 6);
        t.same(
          under.step({
            starts: [{ sequence: 0, request: 1 }],
            segments: [{ sequence: 0, request: 1, position: 0, tokens: prompt.slice(0, 13), sample: false }],
          }),
          [],
        );
        t.equal(under.result('decodedTokens'), 13);
        let [sample] = under.step({ segments: [{ sequence: 0, request: 1, position: 13, tokens: prompt.slice(13) }] });
        const actual = [sample.token];
        while (actual.length < expected.length) {
          [sample] = under.step({
            segments: [{ sequence: 0, request: 1, position: prompt.length + actual.length - 1 }],
          });
          actual.push(sample.token);
        }
        t.same(actual, expected);
      });

      // Where the engine's flash attention walks over other sequences' cells in the shared pool, it rounds otherwise than without them
      // (up to 0.1 in a logit), and so it does where a ubatch begins elsewhere. Without both, nothing may differ at all.
      t.test(`${layout}: sequences in one batch give what each gives alone`, async (t) => {
        under.createContext({ layout, ubatchTokens: 128, flashAttention: layout === 'shared' ? 'off' : 'auto' });
        const prompts = [3, 4, 5, 6].map((seed) => tokensFrom(seed, 4 * seed));
        const alone = prompts.map((prompt) => under.generate(prompt, 6));
        const together = prompts.map((): number[] => []);
        const keep = (samples: StepSample[]) => {
          for (const { sequence, token } of samples) together[sequence].push(token);
        };
        keep(
          under.step({
            starts: prompts.map((_, sequence) => ({ sequence, request: sequence })),
            segments: prompts.map((tokens, sequence) => ({ sequence, request: sequence, position: 0, tokens })),
          }),
        );
        for (let index = 0; index < 5; index++) {
          keep(
            under.step({
              segments: prompts.map((prompt, sequence) => ({
                sequence,
                request: sequence,
                position: prompt.length + index,
              })),
            }),
          );
        }
        t.same(together, alone);
      });
    }
  });
}

t.test('the engine says when a sequence is done, and drops what was planned for it', async (t) => {
  const under = new EngineUnderTest('tiny-qwen3');
  t.teardown(() => under.close());
  under.createContext();
  const prompt = tokensFrom(7, 6);
  const start = (sequence: number, maxTokens: number) => ({ sequence, request: sequence, sampling: { maxTokens } });
  const samples = under.step({
    starts: [start(0, 2), start(1, 100)],
    segments: [0, 1].map((sequence) => ({ sequence, request: sequence, position: 0, tokens: prompt })),
  });
  t.same(
    samples.map(({ flags }) => flags),
    [0, 0],
  );
  const decode = (offset: number) =>
    [0, 1].map((sequence) => ({ sequence, request: sequence, position: prompt.length + offset }));
  t.same(
    under.step({ segments: decode(0) }).map(({ flags }) => flags),
    [SAMPLE_FLAG.maxTokens, 0],
  );

  t.same(
    under.step({ segments: decode(1) }).map(({ sequence }) => sequence),
    [1],
  );
  t.equal(under.result('droppedCount'), 1);
  t.equal(under.result('decodedTokens'), 1);

  t.same(under.step({ ops: [{ kind: 'stop', sequence: 1 }], segments: decode(2) }), []);
  t.equal(under.result('droppedCount'), 2);
  t.equal(under.result('decodedTokens'), 0, 'nothing was left to decode');
  t.equal(under.result('status'), STEP_STATUS.ok);
});

t.test('a resumed request counts and draws on from where it was', async (t) => {
  const under = new EngineUnderTest('tiny-qwen3');
  t.teardown(() => under.close());
  under.createContext();
  const prompt = tokensFrom(8, 9);
  const sampling = { temperature: 1.2, seed: 99, maxTokens: 6, penaltyLastTokens: 32, presencePenalty: 0.5 };
  const expected = under.generate(prompt, 10, sampling);
  t.equal(expected.length, 6);
  const history = expected.slice(0, 3);
  const all = [...prompt, ...history];
  const resumed = [
    under.step({
      starts: [{ sequence: 3, request: 2, sampling, history, sampledBefore: 3 }],
      segments: [{ sequence: 3, request: 2, position: 0, tokens: all }],
    })[0],
  ];
  while (resumed.at(-1)?.flags === 0) {
    resumed.push(under.step({ segments: [{ sequence: 3, request: 2, position: all.length + resumed.length - 1 }] })[0]);
  }
  t.same(
    resumed.map(({ token }) => token),
    expected.slice(3),
  );
});

t.test('no room: the engine says so, nothing has moved, and removing makes room', async (t) => {
  const under = new EngineUnderTest('tiny-qwen3');
  t.teardown(() => under.close());
  under.createContext({ cells: 256 });
  const long = tokensFrom(9, 200);
  const segment = (sequence: number) => [{ sequence, request: sequence, position: 0, tokens: long }];
  const [first] = under.step({ starts: [{ sequence: 0, request: 0 }], segments: segment(0) });
  t.same(under.step({ starts: [{ sequence: 1, request: 1 }], segments: segment(1) }), []);
  t.equal(under.result('status'), STEP_STATUS.noKvSlot);
  t.equal(under.result('kvUsedTokens'), 200);
  const [second] = under.step({ ops: [{ kind: 'evict', sequence: 0 }], segments: segment(1) });
  t.equal(under.result('status'), STEP_STATUS.ok);
  t.equal(second.token, first.token);
  t.equal(under.result('kvUsedTokens'), 200);
});

t.test('the abort flag ends a decode, and the sequences are where the engine left them', async (t) => {
  const under = new EngineUnderTest('tiny-qwen3');
  t.teardown(() => under.close());
  under.createContext({ ubatchTokens: 32 });
  const words = new Int32Array(new SharedArrayBuffer(16));
  under.engine.setAbortFlag(words, 2);
  const prompt = tokensFrom(10, 100);
  const expected = under.generate(prompt, 3);
  Atomics.store(words, 2, 1);
  const record = {
    starts: [{ sequence: 0, request: 0 }],
    segments: [{ sequence: 0, request: 0, position: 0, tokens: prompt }],
  };
  t.same(under.step(record), []);
  t.equal(under.result('status'), STEP_STATUS.aborted);
  t.ok(under.result('kvUsedTokens') < prompt.length);
  Atomics.store(words, 2, 0);
  under.step({ ops: [{ kind: 'remove', sequence: 0 }] });
  t.same(under.generate(prompt, 3), expected);
});
