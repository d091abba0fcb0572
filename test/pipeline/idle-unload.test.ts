import t from 'tap';
import { StartError } from '../../src/main/start-error.js';
import { fakeCompletion } from '../../src/workers/fake-tokens.js';
import { ask, textTokens } from '../support/fake-pipeline.js';
import { startFakeResidence, untilResidence } from '../support/fake-residence.js';
import { GREEDY } from '../support/scheduler-harness.js';

t.setTimeout(120_000);

const FAT = { bytesPerToken: 128 * 1024, deviceKind: 'cpu' } as const;
const NEVER = new AbortController().signal;
const PROMPT = textTokens('a prompt');

/** Holds whoever waits for it. */
function latch(): { opened: Promise<void>; open: () => void } {
  let open = () => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { opened, open };
}

t.test('an idle model is unloaded and comes back with the next request', async (t) => {
  const fake = await startFakeResidence({}, {}, FAT);
  const { pipeline, prepare } = fake.residence;
  t.teardown(() => fake.residence.close(0));
  const before = await ask(pipeline, PROMPT, { maxTokens: 20 });
  const { steps } = pipeline.deviceGauges();
  let lastId = before.id;
  for (let round = 1; round <= 2; round++) {
    await untilResidence(fake, 'unloaded');
    const { kvBytes, weightsBytes, steps: stepsNow } = pipeline.deviceGauges();
    t.same([kvBytes, weightsBytes], [0, 0]);
    t.ok(stepsNow >= steps * round, 'counts go on');
    t.match(pipeline.loadLine(), { residence: 'unloaded', ledger: { total_bytes: 0 }, plan: { context_tokens: 2048 } });
    t.equal(pipeline.activeCount, 0);
    t.same(await prepare.text('a prompt', { addSpecial: false, parseSpecial: false }, NEVER), PROMPT);
    t.equal(pipeline.residence, 'ready');
    const after = await ask(pipeline, PROMPT, { maxTokens: 20 });
    t.same(after.tokens, before.tokens, 'the same answer as before');
    t.equal(after.cachedTokens, 0);
    t.ok(after.id > lastId, 'no id comes again: an old cancel must not hit a new request');
    lastId = after.id;
  }
  t.equal(fake.loadCount(), 3);
  t.match(fake.logs.join('\n'), /no request for 0\.05 s.*memory is given back.*loaded again/s);
});

t.test('requests that come together wait for one load, prompts of tokens and of text', async (t) => {
  const gate = latch();
  const fake = await startFakeResidence({}, {}, FAT, () => gate.opened);
  const { pipeline, prepare } = fake.residence;
  t.teardown(() => fake.residence.close(0));
  await untilResidence(fake, 'unloaded');
  const answers = Promise.all(['a', 'bb', 'ccc'].map((text) => ask(pipeline, textTokens(text), { maxTokens: 5 })));
  const prompt = prepare.chat('{"messages":[{"content":"x"}]}', NEVER);
  t.equal(pipeline.residence, 'loading');
  t.equal(pipeline.activeCount, 3, 'they are in flight');
  gate.open();
  t.same((await prompt).tokens, textTokens('x'));
  for (const [i, answer] of (await answers).entries()) {
    t.same(answer.tokens, fakeCompletion(textTokens('abc'[i].repeat(i + 1)), 5));
    t.equal(answer.reason, 'length');
  }
  t.equal(fake.loadCount(), 2);
});

t.test('a request that comes while the model goes is answered by the next', async (t) => {
  const answers: ReturnType<typeof ask>[] = [];
  const fake = await startFakeResidence({
    log: (_level, message) => {
      // In the middle: the pipeline has begun to close.
      if (message.includes('is unloaded until') && answers.length === 0)
        queueMicrotask(() => answers.push(ask(fake.residence.pipeline, PROMPT, { maxTokens: 5 })));
    },
  });
  t.teardown(() => fake.residence.close(0));
  while (answers.length === 0) await new Promise((resolve) => setTimeout(resolve, 5));
  const [answer] = await Promise.all(answers);
  t.same(answer.tokens, fakeCompletion(PROMPT, 5));
});

t.test('a request that takes longer than that keeps its model, and so does one in preparation', async (t) => {
  const fake = await startFakeResidence({}, {}, { ...FAT, decodeDelayMicros: 2000 });
  t.teardown(() => fake.residence.close(0));
  const answer = await ask(fake.residence.pipeline, PROMPT, { maxTokens: 200 });
  t.same(answer.tokens, fakeCompletion(PROMPT, 200));
  t.equal(fake.loadCount(), 1);
  const release = fake.residence.hold();
  await new Promise((resolve) => setTimeout(resolve, 200));
  t.equal(fake.residence.pipeline.residence, 'ready');
  release();
  await untilResidence(fake, 'unloaded');
});

t.test('first the context is put away, then the weights; a request finds both again', async (t) => {
  const fake = await startFakeResidence({ idleUnloadMs: 800 }, { idleReleaseMs: 50 }, FAT);
  t.teardown(() => fake.residence.close(0));
  const before = await ask(fake.residence.pipeline, PROMPT, { maxTokens: 5 });
  await untilResidence(fake, 'released');
  t.equal(fake.residence.pipeline.loadLine().residence, 'released');
  await untilResidence(fake, 'unloaded');
  const after = await ask(fake.residence.pipeline, PROMPT, { maxTokens: 5 });
  t.same(after.tokens, before.tokens);
});

t.test('a load that fails is an error for those who wait, and not the end', async (t) => {
  const refusal = { sentence: 'no room' } as StartError['refusal'];
  const failures = [new StartError('refused', 'no room', refusal), new StartError('model_not_found', 'gone')];
  const fake = await startFakeResidence({ failedPauseMs: 500 }, {}, FAT, async () => {
    const failure = failures.shift();
    if (failure) throw failure;
  });
  const { pipeline, prepare } = fake.residence;
  t.teardown(() => fake.residence.close(0));
  await untilResidence(fake, 'unloaded');
  const waiting = await Promise.all([ask(pipeline, PROMPT), ask(pipeline, PROMPT)]);
  for (const { reason } of waiting) t.match(reason, { code: 'insufficient_memory', retryAfterSeconds: 1 });
  await t.rejects(prepare.render('{}', NEVER), { code: 'insufficient_memory' }, 'nor is it tried again at once');
  t.equal(fake.loadCount(), 2);
  await new Promise((resolve) => setTimeout(resolve, 600));
  t.match((await ask(pipeline, PROMPT)).reason, { code: 'loading', message: /could not be loaded again: gone/ });
  await new Promise((resolve) => setTimeout(resolve, 600));
  t.same((await ask(pipeline, PROMPT, { maxTokens: 5 })).tokens, fakeCompletion(PROMPT, 5));
});

t.test('waiting has bounds: in number, in time, and by its client', async (t) => {
  const gate = latch();
  const fake = await startFakeResidence(
    { loadTimeoutMs: 300, waitingMax: 0 },
    { maxRunningRequests: 2 },
    FAT,
    () => gate.opened,
  );
  const { pipeline, prepare } = fake.residence;
  t.teardown(() => fake.residence.close(0));
  await untilResidence(fake, 'unloaded');
  const finished = new Promise((resolve) => {
    const sampling = { ...GREEDY, maxTokens: 1 };
    const id = pipeline.submit(
      { promptTokens: PROMPT, sampling },
      { token: () => t.fail('cancelled'), finished: resolve, failed: resolve },
    );
    pipeline.cancel(id);
    pipeline.cancel(id);
  });
  t.equal(await finished, 'cancelled', 'before the model is there');
  const leaving = new AbortController();
  const left = prepare.render('{}', leaving.signal);
  const late = prepare.render('{}', NEVER);
  await t.rejects(prepare.render('{}', NEVER), { code: 'queue_full' });
  leaving.abort(new Error('gone'));
  await t.rejects(left, { message: 'gone' });
  await t.rejects(late, { code: 'loading', message: /within 0\.3 s/ });
  gate.open();
});

t.test('closing ends whoever waits, in every state', async (t) => {
  const unloaded = await startFakeResidence({}, {}, FAT);
  await untilResidence(unloaded, 'unloaded');
  await unloaded.residence.close(0);
  t.match((await ask(unloaded.residence.pipeline, PROMPT)).reason, { code: 'draining' });

  const loading = await startFakeResidence({}, {}, { ...FAT, loadDelayMs: 300 });
  await untilResidence(loading, 'unloaded');
  const answer = ask(loading.residence.pipeline, PROMPT);
  await untilResidence(loading, 'loading');
  await loading.residence.close(0);
  t.match((await answer).reason, { code: 'draining' });

  const loaded = await startFakeResidence({ idleUnloadMs: 0 }, {}, { ...FAT, decodeDelayMicros: 1000 });
  const cut = ask(loaded.residence.pipeline, PROMPT, { maxTokens: 1500 });
  await Promise.all([loaded.residence.close(0), loaded.residence.pipeline.close(0), loaded.residence.prepare.close()]);
  t.equal((await cut).reason, 'cancelled');
});

t.test('a death of the workers is told, in the second life as in the first', async (t) => {
  const fake = await startFakeResidence({}, {}, { ...FAT, crashAtStep: { step: 3, kind: 'exit-thread' } });
  t.teardown(() => fake.residence.close(0));
  const died = new Promise<Error>((resolve) => fake.residence.pipeline.onFatal(resolve));
  await untilResidence(fake, 'unloaded');
  const answer = await ask(fake.residence.pipeline, PROMPT, { maxTokens: 20 });
  t.match(answer.reason, { code: 'internal' });
  t.match((await died).message, /forward worker ended/);
});
