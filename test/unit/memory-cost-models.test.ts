import t from 'tap';
import type { ContextSpec } from '../../src/shared/engine.js';
import { AnalyticCostModel } from '../../src/shared/memory/analytic-cost-model.js';
import { CONTEXT_CELLS_MAX, contextCost, ExactCostModel } from '../../src/shared/memory/exact-cost-model.js';
import type { ModelShape } from '../../src/shared/memory/model-shape.js';
import { MIB, SMOL, shape } from './memory-machines.js';

const FAT = shape({
  layerCount: 16,
  embeddingLength: 256,
  feedForwardLength: 512,
  queryHeadCount: 16,
  kvHeads: [16],
  keyLength: 128,
  valueLength: 128,
  vocabularySize: 151_936,
});
const EIGHT_B = shape({
  layerCount: 32,
  embeddingLength: 4096,
  feedForwardLength: 14_336,
  queryHeadCount: 32,
  kvHeads: [8],
  keyLength: 128,
  valueLength: 128,
  vocabularySize: 151_936,
});
const A3B = shape({
  layerCount: 48,
  embeddingLength: 2048,
  feedForwardLength: 6144,
  expertUsedCount: 8,
  expertFeedForwardLength: 768,
  queryHeadCount: 32,
  kvHeads: [4],
  keyLength: 128,
  valueLength: 128,
  vocabularySize: 151_936,
});

type Recorded = readonly [
  layout: 'shared' | 'private',
  sequences: number,
  cells: number,
  ubatch: number,
  fused: boolean,
  kvBytes: number,
  computeBytes: number,
];

/** What the engine answered (its no_alloc measurement, v0.4.0, CPU, n_outputs_max = sequences). */
const RECORDED: ReadonlyArray<readonly [name: string, model: ModelShape, rows: readonly Recorded[]]> = [
  [
    'SmolLM2',
    SMOL,
    [
      ['shared', 1, 512, 32, false, 11_796_480, 1_073_696],
      ['shared', 1, 4096, 512, false, 94_371_840, 90_578_976],
      ['shared', 1, 16_384, 512, true, 377_487_360, 30_945_312],
      ['shared', 8, 512, 32, true, 11_796_480, 1_683_584],
      ['shared', 8, 16_384, 128, false, 377_487_360, 85_559_328],
    ],
  ],
  [
    'fat KV',
    FAT,
    [
      ['shared', 1, 512, 512, true, 67_108_864, 22_032_416],
      ['shared', 8, 512, 32, true, 67_108_864, 4_911_232],
      ['private', 4, 4096, 512, false, 2_147_483_648, 160_964_640],
      ['private', 4, 4096, 512, true, 2_147_483_648, 25_702_432],
    ],
  ],
  [
    '8B',
    EIGHT_B,
    [
      ['shared', 16, 4096, 512, false, 536_870_912, 322_969_664],
      ['shared', 16, 4096, 512, true, 536_870_912, 125_841_472],
      ['private', 4, 512, 2048, false, 268_435_456, 473_989_152],
    ],
  ],
  [
    '30B-A3B',
    A3B,
    [
      ['shared', 1, 512, 512, true, 50_331_648, 92_811_296],
      ['shared', 1, 4096, 512, false, 402_653_184, 308_289_568],
    ],
  ],
];

function spec(layout: ContextSpec['layout'], sequences: number, cells: number, ubatchTokens: number, fused: boolean) {
  const step = { batchTokens: ubatchTokens, ubatchTokens, keyType: 'f16', valueType: 'f16' } as const;
  const flashAttention = fused ? 'on' : 'off';
  return { layout, sequences, cells, ...step, flashAttention, threads: 2, promptThreads: 2 } as const;
}

for (const [name, model, rows] of RECORDED) {
  t.test(`${name}: KV to the byte, compute never under and within a tenth of the engine's answer`, async (t) => {
    const costs = new AnalyticCostModel(model, 'host', 2);
    for (const [layout, sequences, cells, ubatch, fused, kvBytes, computeBytes] of rows) {
      const cost = costs.cost(spec(layout, sequences, cells, ubatch, fused));
      const row = `${layout} ${sequences} × ${cells}, ${ubatch}`;
      t.equal(cost.kvBytes, kvBytes, row);
      const ratio = cost.computeBytes / computeBytes;
      t.ok(ratio >= 1 && ratio <= 1.1, `${row}: ${ratio.toFixed(3)}`);
    }
  });
}

t.test('sliding windows stop growing, private ones a stream each', async (t) => {
  const layers = [true, true, true, true, true, false];
  const model = shape({ layerCount: 6, kvHeads: [1], slidingWindowTokens: 512, slidingLayers: layers });
  const costs = new AnalyticCostModel(model, 'host', 2);
  const perToken = 2 * 64 * 2;
  t.equal(costs.cost(spec('shared', 1, 8192, 256, true)).kvBytes, (8192 + 5 * 768) * perToken);
  t.equal(costs.cost(spec('shared', 4, 8192, 256, true)).kvBytes, (8192 + 5 * 2304) * perToken);
  t.equal(costs.cost(spec('private', 4, 8192, 256, true)).kvBytes, 4 * (8192 + 5 * 768) * perToken);
  t.equal(costs.cost(spec('shared', 1, 512, 256, true)).kvBytes, 6 * 512 * perToken);
});

t.test('a breakdown is split by where it lies', async (t) => {
  const parts = [
    { device: 'CUDA0', isHost: false, modelBytes: 9, contextBytes: 100, computeBytes: 20 },
    { device: 'CPU', isHost: true, modelBytes: 9, contextBytes: 3, computeBytes: 4 },
  ];
  t.same(contextCost(parts, 'discrete'), { kvBytes: 100, computeBytes: 20, hostBytes: 7 });
  t.same(contextCost(parts, 'host'), { kvBytes: 103, computeBytes: 24, hostBytes: 0 });
});

const NOTHING_UNMEASURED = { vocabularySize: 0, isRecurrent: true };

t.test('logits and notes on cells are counted beside the answer, where the process has them', async (t) => {
  const answer = [{ device: 'D', isHost: false, modelBytes: 0, contextBytes: 1000, computeBytes: 100 }];
  const model = { vocabularySize: 50, isRecurrent: false };
  const beside = 4 * 50 * 4 + 4 * 512 * 52;
  const costOf = (memory: 'host' | 'discrete') =>
    new ExactCostModel(() => answer, memory, 2, model).cost(spec('private', 4, 512, 64, true));
  t.same(costOf('host'), { kvBytes: 1000, computeBytes: 100 + beside, hostBytes: 0 });
  t.same(costOf('discrete'), { kvBytes: 1000, computeBytes: 100, hostBytes: beside });
});

t.test('the engine is asked once for the same context, and what is kept is bounded', async (t) => {
  let asked = 0;
  const costs = new ExactCostModel(
    (one) => {
      asked++;
      return [{ device: 'CPU', isHost: true, modelBytes: 0, contextBytes: one.cells, computeBytes: MIB }];
    },
    'host',
    2,
    NOTHING_UNMEASURED,
  );
  for (let i = 0; i < 3; i++) costs.cost({ ...spec('shared', 1, 512, 64, true), threads: i });
  t.equal(asked, 1, 'threads take no memory');
  for (let i = 0; i < 1000; i++) costs.cost(spec('shared', 1, 256 * (i + 1), 64, true));
  t.equal(costs.cost(spec('shared', 1, 512, 64, true)).kvBytes, 512);
});

t.test(
  'a context larger than any that the engine makes has a cost too: of the largest, and in proportion',
  async (t) => {
    const asked: ContextSpec[] = [];
    const costs = new ExactCostModel(
      (one) => {
        asked.push(one);
        const streams = one.layout === 'private' ? one.sequences : 1;
        return [
          { device: 'CPU', isHost: true, modelBytes: 0, contextBytes: one.cells * streams * 100, computeBytes: 0 },
        ];
      },
      'host',
      2,
      NOTHING_UNMEASURED,
    );
    t.equal(costs.cost(spec('shared', 4, CONTEXT_CELLS_MAX, 64, true)).kvBytes, CONTEXT_CELLS_MAX * 100);
    t.equal(costs.cost(spec('shared', 4, 10_000_128, 64, true)).kvBytes, 10_000_128 * 100);
    const inStreams = costs.cost(spec('private', 256, 131_072, 64, true)).kvBytes;
    t.equal(inStreams, 256 * 131_072 * 100);
    t.same(
      asked.map(({ cells }) => cells),
      [CONTEXT_CELLS_MAX, CONTEXT_CELLS_MAX, CONTEXT_CELLS_MAX / 256],
    );
  },
);
