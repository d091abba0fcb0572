import t from 'tap';
import { EngineUnderTest, tokensFrom } from './engine-under-test.js';

// Model tests wait for the cores that other tests use.
t.setTimeout(180_000);

const under = new EngineUnderTest('tiny-qwen3');
t.teardown(() => under.close());

const PROMPTS = [0, 1, 2, 3].map((sequence) => tokensFrom(20 + sequence, 12 + sequence));
const CACHED = tokensFrom(30, 25);
const CELLS = 256;

interface Answers {
  decoded: number[][];
  cached: number[];
  usedCells: number[];
  decodedTokens: number[];
}

/** Sequences 0 and 3 decode; 1 holds a cached prefix of `cachedCount` tokens and 2 nothing. Then the prefix is gone on with. */
function run(bridgedGap: number, cachedCount = CACHED.length): Answers {
  under.createContext({ layout: 'private', cells: CELLS, bridgedGap });
  const cached = tokensFrom(30, cachedCount);
  under.step({ segments: [{ sequence: 1, request: 9, position: 0, tokens: cached, sample: false }] });
  const running = [0, 3];
  const answers: Answers = { decoded: [[], []], cached: [], usedCells: [], decodedTokens: [] };
  const keep = (samples: ReturnType<EngineUnderTest['step']>) => {
    samples.forEach(({ sequence, token }) => {
      answers.decoded[running.indexOf(sequence)].push(token);
    });
    answers.usedCells.push(under.result('kvUsedTokens'));
    answers.decodedTokens.push(under.result('decodedTokens'));
  };
  keep(
    under.step({
      starts: running.map((sequence) => ({ sequence, request: sequence })),
      segments: running.map((sequence) => ({ sequence, request: sequence, position: 0, tokens: PROMPTS[sequence] })),
    }),
  );
  for (let step = 0; step < 8; step++) {
    const segments = running.map((sequence) => ({
      sequence,
      request: sequence,
      position: PROMPTS[sequence].length + step,
    }));
    keep(under.step({ segments }));
  }
  if (cachedCount < CELLS) {
    const rest = [{ sequence: 1, request: 8, position: cachedCount, tokens: tokensFrom(31, 3) }];
    answers.cached.push(under.step({ starts: [{ sequence: 1, request: 8 }], segments: rest })[0].token);
    for (let step = 0; step < 4; step++) {
      const position = cachedCount + 3 + step;
      answers.cached.push(under.step({ segments: [{ sequence: 1, request: 8, position }] })[0].token);
    }
  }
  return answers;
}

t.test('idle streams computed along change no answer, no cached prefix and no count', async (t) => {
  t.same(run(4), run(0));
});

t.test('a gap with a full stream in it, or longer than allowed, is left', async (t) => {
  t.same(run(4, CELLS), run(0, CELLS));
  t.same(run(1), run(0));
});

t.test('streams in the middle of a prompt are not taken for decoding ones', async (t) => {
  const together = (bridgedGap: number) => {
    under.createContext({ layout: 'private', cells: CELLS, bridgedGap });
    const samples = under.step({
      starts: [0, 2, 3].map((sequence) => ({ sequence, request: sequence })),
      segments: [
        { sequence: 0, request: 0, position: 0, tokens: PROMPTS[0] },
        { sequence: 2, request: 2, position: 0, tokens: [PROMPTS[2][0]] },
        { sequence: 3, request: 3, position: 0, tokens: PROMPTS[3] },
      ],
    });
    return samples.map(({ sequence, token }) => [sequence, token]);
  };
  t.same(together(4), together(0));
});

t.test('a record out of order is computed as it is', async (t) => {
  const shuffled = (bridgedGap: number) => {
    under.createContext({ layout: 'private', cells: CELLS, bridgedGap });
    const order = [0, 3, 1];
    return under
      .step({
        starts: order.map((sequence) => ({ sequence, request: sequence })),
        segments: order.map((sequence) => ({
          sequence,
          request: sequence,
          position: 0,
          tokens: [PROMPTS[sequence][0]],
        })),
      })
      .map(({ sequence, token }) => [sequence, token]);
  };
  t.same(shuffled(4), shuffled(0));
});
