import t from 'tap';
import type { WorkerPipeline } from '../../src/main/pipeline.js';
import { fakeCompletion } from '../../src/workers/fake-tokens.js';
import { EngineLatch } from '../support/engine-latch.js';
import { ask, startFakePipeline, textTokens } from '../support/fake-pipeline.js';

/** Large enough that the plan's KV is more than a start takes at once: a ladder with several rungs. */
const FAT = { bytesPerToken: 128 * 1024, deviceKind: 'cpu' } as const;
const SETTINGS = { contextTokens: 8192, maxRunningRequests: 4 } as const;

/** Resolves when the gauges hold a reading that was taken after this call. */
async function nextReading(pipeline: WorkerPipeline): Promise<void> {
  const now = performance.timeOrigin + performance.now();
  while (pipeline.deviceGauges().readAtMs <= now) await new Promise((resolve) => setTimeout(resolve, 20));
}

for (const kvLayout of ['shared', 'private'] as const) {
  t.test(`the context grows under running requests and nobody notices (${kvLayout})`, async (t) => {
    const logs: string[] = [];
    const pipeline = await startFakePipeline(
      FAT,
      { ...SETTINGS, kvLayout },
      { log: (_level, message) => logs.push(message) },
    );
    t.teardown(() => pipeline.close(0));
    const first = pipeline.ready.ladder[0];
    t.ok(pipeline.ready.ladder.length > 1 && first.cells < 8192, 'the start is small');
    const prompts = [
      textTokens('a'.repeat(700)),
      textTokens('b'.repeat(900)),
      textTokens('c'.repeat(5000)),
      textTokens('d'),
    ];
    const lengths = [2000, 1500, 300, 3000];
    const answers = await Promise.all(
      prompts.map((prompt, i) => ask(pipeline, prompt, { maxTokens: lengths[i], penaltyLastTokens: 64 })),
    );
    answers.forEach((answer, i) => {
      t.equal(answer.reason, 'length');
      t.same(answer.tokens, fakeCompletion(prompts[i], lengths[i]), 'the same answer as without a move');
    });
    const moves = logs.filter((line) => line.startsWith('context '));
    t.ok(moves.length >= 1, moves.join('; '));
    t.match(moves[0], /rung 0 → rung/);
    t.ok(pipeline.deviceGauges().kvTotalTokens > first.cells);
  });
}

t.test('a cached prefix is carried over', async (t) => {
  const pipeline = await startFakePipeline(FAT, { ...SETTINGS, kvLayout: 'shared' });
  t.teardown(() => pipeline.close(0));
  const prompt = textTokens('p'.repeat(600));
  await ask(pipeline, prompt, { maxTokens: 1 });
  await ask(pipeline, textTokens('q'.repeat(7000)), { maxTokens: 1 });
  t.ok(pipeline.deviceGauges().contextEpoch > 1, 'the context has moved');
  const again = await ask(pipeline, [...prompt, 33], { maxTokens: 4 });
  t.equal(again.cachedTokens, 600);
  t.same(again.tokens, fakeCompletion([...prompt, 33], 4));
});

t.test('without headroom the context stays as it is: a request waits its time and gets 503', async (t) => {
  const latch = new EngineLatch();
  const pipeline = await startFakePipeline({ ...FAT, control: latch.buffer }, { ...SETTINGS, kvLayout: 'private' });
  t.teardown(() => pipeline.close(0));
  // Less than what a climb needs, more than what puts the context away.
  latch.systemAvailableMib(500);
  await nextReading(pipeline);
  const long = await ask(pipeline, textTokens('x'.repeat(6000)), { maxTokens: 2 }, undefined, { maxWaitMs: 300 });
  t.match(long.reason, { code: 'insufficient_memory', retryAfterSeconds: 5 });
  const short = await ask(pipeline, textTokens('short'), { maxTokens: 2 });
  t.same(short.tokens, fakeCompletion(textTokens('short'), 2), 'what fits goes on');
  latch.systemAvailableMib(16_000);
  await nextReading(pipeline);
  const late = await ask(pipeline, textTokens('x'.repeat(6000)), { maxTokens: 2 }, undefined, { maxWaitMs: 20_000 });
  t.equal(late.reason, 'length', 'memory is back');
});

t.test('a larger context that cannot be made after all leaves the old one', async (t) => {
  const pipeline = await startFakePipeline({ ...FAT, failCreateContext: [2] }, { ...SETTINGS, kvLayout: 'shared' });
  t.teardown(() => pipeline.close(0));
  const prompt = textTokens('y'.repeat(3000));
  const answer = await ask(pipeline, prompt, { maxTokens: 1500 });
  t.same(answer.tokens, fakeCompletion(prompt, 1500));
});

for (const isDiskFull of [false, true]) {
  const what = isDiskFull ? 'are computed again' : 'wait in files';
  t.test(`under pressure the context falls, and running requests ${what}`, async (t) => {
    const latch = new EngineLatch();
    const logs: string[] = [];
    const failWrite = isDiskFull ? [1] : [];
    const pipeline = await startFakePipeline(
      { ...FAT, control: latch.buffer, decodeDelayMicros: 6_000, perTokenDelayMicros: 600, failWrite },
      { ...SETTINGS, kvLayout: 'shared', speculative: 'off' },
      { log: (_level, message) => logs.push(message), spillFolder: t.testdir() },
    );
    t.teardown(() => pipeline.close(0));
    await ask(pipeline, textTokens('e'.repeat(3000)), { maxTokens: 1 });
    t.ok(pipeline.deviceGauges().contextEpoch > 1, 'the context has climbed');
    const computedBefore = pipeline.deviceGauges().decodedTokens;
    const prompts = ['one', 'two', 'three'].map((text) => textTokens(text.repeat(50)));
    const prefilled = prompts.reduce((sum, { length }) => sum + length, 0);
    const press = (count: number) => {
      // Less than half of the margin, more than the quarter from which on nothing is waited for.
      if (count === 3)
        latch.systemAvailableMib(Math.round((pipeline.ready.plan.arithmetic.marginBytes / 2 ** 20) * 0.35));
    };
    const answers = await Promise.all(prompts.map((prompt) => ask(pipeline, prompt, { maxTokens: 400 }, press)));
    answers.forEach(({ tokens }, i) => {
      t.same(tokens, fakeCompletion(prompts[i], 400), 'the same answer as without a move');
    });
    const text = logs.join('\n');
    t.match(text, isDiskFull ? /→ rung 0, .*: 0 of 3 .* 3 through files/ : /→ rung 0, .*: 3 of 3 .*, 3 through files/);
    if (isDiskFull) t.match(text, /3 of 3 sequences could not be kept in files/);
    const again = pipeline.deviceGauges().decodedTokens - computedBefore - prefilled - 3 * 399;
    t.equal(again > 0, isDiskFull, `${again} tokens were computed again`);
  });
}

t.test('memory runs out under a long step: it is given up, and everybody gets the same answer later', async (t) => {
  const latch = new EngineLatch();
  const logs: string[] = [];
  const pipeline = await startFakePipeline(
    { ...FAT, control: latch.buffer },
    { ...SETTINGS, kvLayout: 'shared' },
    { log: (_level, message) => logs.push(message) },
  );
  t.teardown(() => pipeline.close(0));
  const before = latch.enteredSteps;
  latch.hold();
  const prompts = ['one', 'another'].map((text) => textTokens(text.repeat(100)));
  const answers = Promise.all(prompts.map((prompt) => ask(pipeline, prompt, { maxTokens: 40 })));
  await latch.entered(before + 1);
  latch.systemAvailableMib(50);
  while (pipeline.deviceGauges().kvTotalTokens > 0) await new Promise((resolve) => setTimeout(resolve, 20));
  t.match(logs.join('\n'), /the running step is given up: memory pressure/);
  latch.release();
  latch.systemAvailableMib(16_000);
  for (const [i, answer] of (await answers).entries()) {
    t.equal(answer.reason, 'length');
    t.same(answer.tokens, fakeCompletion(prompts[i], 40));
  }
});

t.test('while nothing at all fits, requests wait, and their time is bounded', async (t) => {
  const latch = new EngineLatch();
  const pipeline = await startFakePipeline({ ...FAT, control: latch.buffer }, { ...SETTINGS, kvLayout: 'private' });
  t.teardown(() => pipeline.close(0));
  latch.systemAvailableMib(16);
  while (pipeline.deviceGauges().kvTotalTokens > 0) await new Promise((resolve) => setTimeout(resolve, 20));
  const late = await ask(pipeline, textTokens('late'), { maxTokens: 2 }, undefined, { maxWaitMs: 300 });
  t.match(late.reason, { code: 'insufficient_memory' });
  latch.systemAvailableMib(16_000);
  const again = await ask(pipeline, textTokens('again'), { maxTokens: 2 });
  t.same(again.tokens, fakeCompletion(textTokens('again'), 2));
});
