import fc from 'fast-check';
import t from 'tap';
import type { ContextSpec } from '../../src/shared/engine.js';
import {
  cachedBesideTile,
  inWholeTiles,
  TILE_TOKENS,
  tileTokensOf,
  withoutFragments,
} from '../../src/shared/scheduler/attention-tiles.js';
import { fakeCompletion } from '../../src/workers/fake-tokens.js';
import { LIMITS, SchedulerHarness, segmentsOf } from '../support/scheduler-harness.js';

const SPEC: ContextSpec = {
  layout: 'private',
  sequences: 1,
  cells: 256,
  batchTokens: 256,
  ubatchTokens: 256,
  keyType: 'f16',
  valueType: 'f16',
  flashAttention: 'auto',
  threads: 1,
  promptThreads: 1,
};
const TILED = {
  ...LIMITS,
  cells: 4096,
  cellsMax: 4096,
  contextTokens: 2048,
  chunkTokens: 256,
  batchTokens: 260,
  tileTokens: 64,
};
const letters = (count: number, first = 65) => Array.from({ length: count }, (_, i) => first + (i % 26));

t.test('only a CPU with flash attention over 16 or 32 bits has tiles', async (t) => {
  t.equal(tileTokensOf('host', SPEC), TILE_TOKENS);
  t.equal(tileTokensOf('unified', SPEC), 0);
  t.equal(tileTokensOf('discrete', SPEC), 0);
  t.equal(tileTokensOf('host', { ...SPEC, flashAttention: 'off' }), 0);
  t.equal(tileTokensOf('host', { ...SPEC, keyType: 'q8_0', valueType: 'q8_0' }), 0);
  t.equal(tileTokensOf('host', { ...SPEC, keyType: 'f32' }), 0, 'two types');
});

t.test('any prompt in any chunks: a fragment only where the prompt or the chunk leaves nothing else', async () => {
  const tokens = fc.integer({ min: 1, max: 5000 });
  fc.assert(
    fc.property(tokens, tokens, (prompt, chunk) => {
      let left = prompt;
      const pieces: number[] = [];
      while (left > 0) {
        const piece = withoutFragments(Math.min(left, chunk), left, TILE_TOKENS);
        if (piece < 1 || piece > Math.min(left, chunk)) return false;
        pieces.push(piece);
        left -= piece;
      }
      const isPossible = prompt >= TILE_TOKENS && chunk >= 2 * TILE_TOKENS;
      return !isPossible || pieces.every((piece) => piece >= TILE_TOKENS);
    }),
  );
});

t.test('chunks are whole tiles; less than one stays as it is', async (t) => {
  t.equal(inWholeTiles(200, 64), 192);
  t.equal(inWholeTiles(64, 64), 64);
  t.equal(inWholeTiles(50, 64), 50);
  t.equal(inWholeTiles(200, 0), 200);
});

t.test('a cached prefix gives up what makes the rest a tile, where that pays', async (t) => {
  t.equal(cachedBesideTile(1340, 40, 64), 1316);
  t.equal(cachedBesideTile(1340, 39, 64), 1340, 'too few');
  t.equal(cachedBesideTile(1340, 64, 64), 1340, 'a tile already');
  t.equal(cachedBesideTile(511, 40, 64), 511, 'too near to the beginning');
  t.equal(cachedBesideTile(1340, 40, 0), 1340, 'no tiles');
});

t.test('a prompt is cut so that its end is no fragment, and the answer is the same', async (t) => {
  const harness = new SchedulerHarness(TILED);
  const prompt = letters(260);
  harness.submit(1, prompt, { params: { maxTokens: 3 } });
  harness.plan();
  t.same(
    segmentsOf(harness.lastRecord).map(([, , count]) => count),
    [196],
    '196 and 64, not 256 and 4',
  );
  harness.drain();
  t.same(harness.outcome(1).tokens, fakeCompletion(prompt, 3));
});

t.test('a prompt that would only begin with a fragment waits for the next step', async (t) => {
  const harness = new SchedulerHarness(TILED);
  harness.submit(1, letters(224), { params: { maxTokens: 2 } });
  harness.submit(2, letters(200, 97), { params: { maxTokens: 2 } });
  harness.plan();
  t.same(
    segmentsOf(harness.lastRecord).map(([, , count]) => count),
    [224],
  );
  harness.drain();
  t.same(harness.outcome(2).tokens, fakeCompletion(letters(200, 97), 2));
});

t.test('a match leaves a whole tile to compute', async (t) => {
  const harness = new SchedulerHarness(TILED);
  const prefix = letters(600);
  harness.submit(1, prefix, { params: { maxTokens: 1 } });
  harness.drain();
  harness.submit(2, [...prefix, ...letters(40, 97)], { params: { maxTokens: 2 } });
  harness.drain();
  t.equal(harness.outcome(2).cachedTokens, 576);
  t.same(harness.outcome(2).tokens, fakeCompletion([...prefix, ...letters(40, 97)], 2));
});
