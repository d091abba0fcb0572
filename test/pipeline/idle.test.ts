import { readFileSync } from 'node:fs';
import t from 'tap';
import { EngineLatch } from '../support/engine-latch.js';
import { ask, startFakePipeline, textTokens } from '../support/fake-pipeline.js';

t.test('main sleeps while it waits for tokens', async (t) => {
  const latch = new EngineLatch();
  const pipeline = await startFakePipeline({ control: latch.buffer });
  t.teardown(() => pipeline.close(0));
  await ask(pipeline, textTokens('warm'), { maxTokens: 50 });
  let reads = 0;
  const drain = pipeline['reader'].drain.bind(pipeline['reader']);
  pipeline['reader'].drain = (recordsMax) => {
    reads++;
    return drain(recordsMax);
  };
  latch.hold();
  const answer = ask(pipeline, textTokens('held'), { maxTokens: 5 });
  await latch.entered(latch.enteredSteps + 1);
  reads = 0;
  await new Promise((resolve) => setTimeout(resolve, 600));
  // It looks four times a second by itself, and once for the notice that the request has started.
  t.ok(reads <= 8, `${reads} looks in 600 ms`);
  latch.release();
  await answer;
});

t.test(
  'tokens that are long gone wake main no more',
  { skip: process.platform !== 'linux' && 'reads /proc' },
  async (t) => {
    const pipeline = await startFakePipeline({ decodeDelayMicros: 2_000 });
    t.teardown(() => pipeline.close(0));
    await ask(pipeline, textTokens('talk'), { maxTokens: 150, ignoreEos: true });
    const before = mainSleeps();
    await new Promise((resolve) => setTimeout(resolve, 400));
    const sleeps = mainSleeps() - before;
    t.ok(sleeps < 30, `main woke ${sleeps} times in 400 ms after 150 tokens`);
  },
);

/** How often the main thread has gone to sleep. */
function mainSleeps(): number {
  return Number(/\nvoluntary_ctxt_switches:\t(\d+)/.exec(readFileSync('/proc/self/status', 'utf8'))?.[1]);
}
