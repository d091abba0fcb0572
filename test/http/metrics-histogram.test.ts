import fc from 'fast-check';
import { Histogram, Registry } from 'prom-client';
import t from 'tap';
import { BucketHistogram } from '../../src/main/metrics-histogram.js';

const buckets = [0.1, 1, 10];

t.test('it prints what the library prints for the same observations', async (t) => {
  const values = fc.array(
    fc.oneof(
      fc.constantFrom(0.1, 1, 10, 0),
      fc.integer({ min: 0, max: 80 }).map((n) => n / 4),
    ),
  );
  const property = fc.asyncProperty(values, async (observed) => {
    const [ours, theirs] = [new Registry(), new Registry()];
    const mine = new BucketHistogram({ name: 'x', help: 'h', buckets, registers: [] });
    ours.registerMetric(mine);
    const original = new Histogram({ name: 'x', help: 'h', buckets, registers: [theirs] });
    for (const value of observed) {
      mine.add(value);
      original.observe(value);
    }
    return mine.count === observed.length && (await ours.metrics()) === (await theirs.metrics());
  });
  await t.resolves(fc.assert(property, { numRuns: 100 }));
});
