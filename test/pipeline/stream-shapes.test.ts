import t, { type Test } from 'tap';
import { fakeCompletion } from '../../src/workers/fake-tokens.js';
import { ask, startFakePipeline, textTokens } from '../support/fake-pipeline.js';

/** Four private spans of 8192 tokens would take 4 GiB, which a CPU does not get: the memory of one pool of 8192. */
const FAT = { bytesPerToken: 128 * 1024, deviceKind: 'cpu' } as const;
const SETTINGS = { contextTokens: 8192, maxRunningRequests: 4 } as const;

async function start(t: Test, fake: object = {}) {
  const logs: string[] = [];
  const pipeline = await startFakePipeline({ ...FAT, ...fake }, SETTINGS, {
    log: (_level, message) => logs.push(message),
    spillFolder: t.testdir(),
  });
  t.teardown(() => pipeline.close(0));
  const moves = () => logs.filter((line) => line.startsWith('context ')).map((line) => line.split(':')[0]);
  return { pipeline, moves };
}

t.test('streams come with the requests, and become longer when one asks for it', async (t) => {
  const { pipeline, moves } = await start(t);
  t.same(
    pipeline.ready.ladder.map(({ spec, cells }) => `${spec.layout} ${spec.sequences} x ${cells}`),
    ['private 1 x 2048', 'private 2 x 2048', 'private 4 x 2048', 'private 2 x 4096', 'private 1 x 8192'],
  );
  const short = Array.from({ length: 6 }, (_, i) => textTokens(`${i}`.repeat(900)));
  const answers = await Promise.all(short.map((prompt) => ask(pipeline, prompt, { maxTokens: 200 })));
  answers.forEach(({ tokens }, i) => {
    t.same(tokens, fakeCompletion(short[i], 200), `request ${i}`);
  });
  t.equal(pipeline.schedulerGauges().runningCap, 4);
  t.equal(
    pipeline.loadLine().ladder.findIndex(({ stands }) => stands),
    2,
  );
  const long = textTokens('l'.repeat(7000));
  t.same((await ask(pipeline, long, { maxTokens: 20 })).tokens, fakeCompletion(long, 20));
  t.equal(
    pipeline.loadLine().ladder.findIndex(({ stands }) => stands),
    4,
  );
  t.match(moves().at(-1), /→ rung 4, 8192 cells/);
});

t.test(
  'an answer that outgrows its stream goes on in a longer one, beside others that must go on as well',
  async (t) => {
    const { pipeline, moves } = await start(t, { decodeDelayMicros: 100 });
    const prompts = ['a', 'b', 'c', 'd'].map((letter) => textTokens(letter.repeat(1900)));
    const lengths = [400, 100, 100, 120];
    const later = textTokens('e'.repeat(500));
    const answers = await Promise.all([
      ...prompts.map((prompt, i) => ask(pipeline, prompt, { maxTokens: lengths[i] })),
      ask(pipeline, later, { maxTokens: 30 }),
    ]);
    answers.forEach(({ tokens, reason }, i) => {
      t.equal(reason, 'length');
      t.same(tokens, i < 4 ? fakeCompletion(prompts[i], lengths[i]) : fakeCompletion(later, 30), `request ${i}`);
    });
    t.ok(
      moves().some((line) => /→ rung [34]/.test(line)),
      moves().join('; '),
    );
  },
);

t.test('what is cached goes along', async (t) => {
  const { pipeline } = await start(t);
  const chat = textTokens('p'.repeat(600));
  await ask(pipeline, chat, { maxTokens: 2 });
  await ask(pipeline, textTokens('w'.repeat(3000)), { maxTokens: 1 });
  t.equal(
    pipeline.loadLine().ladder.findIndex(({ stands }) => stands),
    3,
    'two longer streams',
  );
  const again = [...chat, 33];
  const answer = await ask(pipeline, again, { maxTokens: 3 });
  t.ok(answer.cachedTokens >= 536, `${answer.cachedTokens} of 600: a tile may be computed again`);
  t.same(answer.tokens, fakeCompletion(again, 3));
});
