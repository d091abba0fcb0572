import t from 'tap';
import { limitsOf } from '../../src/main/pipeline-limits.js';
import { parseConfig } from '../../src/shared/config.js';
import { startFakePipeline } from '../support/fake-pipeline.js';

t.test('the target inter-token latency reaches the scheduler, in its unit', async (t) => {
  const pipeline = await startFakePipeline();
  t.teardown(() => pipeline.close(0));
  const targetOf = (targetItlMs?: number) =>
    limitsOf(parseConfig(targetItlMs === undefined ? {} : { targetItlMs }), pipeline.ready).targetItlMicros;
  t.equal(targetOf(20), 20_000);
  t.equal(targetOf(), 300_000);
});
