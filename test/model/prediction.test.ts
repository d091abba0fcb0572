/** A corner of the grid of `make bench-prediction`: the plan's bytes are what the process takes, or it is refused. */
import t from 'tap';
import { fault, GRID } from '../../bench/prediction/grid.js';
import { predict } from '../../bench/prediction/predict.js';
import { requireTestModel } from '../support/test-models.js';

const skip = process.platform === 'linux' ? false : 'memory is read from /proc';

/** Short steps in contexts that are quickly made, and the one that is refused for a model of usual size. */
const CORNER = GRID.filter(
  ({ layout, sequences, contextTokens, chunkTokens }) =>
    chunkTokens === 64 &&
    (contextTokens === 4096 ? sequences === 4 : layout === 'private' && sequences === 16 && contextTokens > 4096),
);

for (const name of ['smollm2', 'tiny-qwen3', 'tiny-mamba'] as const) {
  t.test(`${name}: planned bytes are taken bytes`, { skip }, async (t) => {
    const results = await predict(requireTestModel(name), CORNER);
    t.equal(results.length, CORNER.length);
    for (const result of results) t.equal(fault(result), null, JSON.stringify(result.cell));
    const refusals = results.filter(({ refused }) => refused).length;
    t.equal(refusals, name === 'smollm2' ? 1 : 0, 'refused: 16 private streams of 16,384 tokens');
  });
}
