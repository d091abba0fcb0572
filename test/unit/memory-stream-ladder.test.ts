import t from 'tap';
import type { ContextSpec } from '../../src/shared/engine.js';
import type { ContextRung } from '../../src/shared/memory/context-ladder.js';
import type { ContextCost, CostModel } from '../../src/shared/memory/cost-model.js';
import { streamLadder } from '../../src/shared/memory/stream-ladder.js';

const KIB = 1024;

/** A kibibyte a cell, and `bufferBytes` for each stream. */
function costs(bufferBytes = 0): CostModel {
  const cost = ({ layout, sequences, cells }: ContextSpec): ContextCost => ({
    kvBytes: KIB * cells * (layout === 'shared' ? 1 : sequences),
    computeBytes: layout === 'shared' ? 0 : bufferBytes * sequences,
    hostBytes: 0,
  });
  return { source: 'analytic', cost } as unknown as CostModel;
}

function pool(cells: number, model: CostModel): ContextRung {
  const spec: ContextSpec = {
    layout: 'shared',
    sequences: 8,
    cells,
    batchTokens: 264,
    ubatchTokens: 256,
    keyType: 'f16',
    valueType: 'f16',
    flashAttention: 'auto',
    threads: 2,
    promptThreads: 2,
  };
  return { spec, cells, bytes: model.cost(spec).kvBytes };
}

function shapes(pools: number[], bufferBytes = 0, cap = 8): string[] {
  const model = costs(bufferBytes);
  const ladder = streamLadder(
    pools.map((cells) => pool(cells, model)),
    { runningCap: cap, contextTokens: 4096 },
    model,
    'host',
  );
  for (const { spec, cells } of ladder) {
    t.equal(spec.layout, 'private');
    t.equal(spec.cells, cells);
  }
  return ladder.map(({ spec, cells }) => `${spec.sequences} x ${cells}`);
}

t.test('more streams with more memory, then longer ones', async (t) => {
  t.same(shapes([1536, 2816, 5376, 10496]), ['1 x 2048', '2 x 2048', '5 x 2048', '2 x 5120', '1 x 10496']);
  t.same(shapes([2560, 4864]), ['1 x 2304', '2 x 2304', '1 x 4864']);
});

t.test('no more streams than requests may run, which are longer then', async (t) => {
  t.same(shapes([10496], 0, 2), ['2 x 5120', '1 x 10496']);
});

t.test('none takes more than the pool whose memory it has', async (t) => {
  const model = costs(100 * KIB);
  const ladder = streamLadder([pool(10240, model)], { runningCap: 8, contextTokens: 8192 }, model, 'host');
  for (const rung of ladder) t.ok(rung.bytes <= 10240 * KIB, `${rung.spec.sequences} x ${rung.cells}`);
  t.same(
    ladder.map(({ spec, cells }) => `${spec.sequences} x ${cells}`),
    ['5 x 1792', '2 x 4864', '1 x 9984'],
  );
});

t.test('a pool whose longest request no stream of its bytes would hold stays a pool', async (t) => {
  const model = costs(600 * KIB);
  const pools = [pool(10240, model)];
  t.equal(streamLadder(pools, { runningCap: 8, contextTokens: 10240 }, model, 'host'), pools);
  t.not(streamLadder(pools, { runningCap: 8, contextTokens: 8192 }, model, 'host'), pools);
});
