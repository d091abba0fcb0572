import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import t from 'tap';
import { openVocabulary } from '../../src/shared/native-addon.js';
import { EngineUnderTest, tokensFrom } from './engine-under-test.js';

// Model tests wait for the cores that other tests use.
t.setTimeout(180_000);

function start(mode: string, handle = 0): Worker {
  return new Worker(new URL('./worker-body.js', import.meta.url), { workerData: { mode, handle } });
}

const under = new EngineUnderTest('tiny-mamba');
t.teardown(() => under.close());
under.createContext();
const expected = under.generate(tokensFrom(1, 8), 5);

t.test('engines of several threads are independent, one after the other and beside each other', async (t) => {
  for (let round = 0; round < 2; round++) {
    const workers = [start('generate'), start('generate')];
    const answers = await Promise.all(
      workers.map(async (worker) => {
        const [[answer], [code]] = await Promise.all([once(worker, 'message'), once(worker, 'exit')]);
        t.equal(code, 0);
        return answer;
      }),
    );
    t.same(answers, [expected, expected]);
    t.same(under.generate(tokensFrom(1, 8), 5), expected, 'here as well');
  }
});

t.test('other threads tokenize with a model while its own thread decodes', async (t) => {
  const workers = [start('vocabulary', under.handle), start('vocabulary', under.handle)];
  const answers = Promise.all(workers.map((worker) => once(worker, 'message')));
  t.same(under.generate(tokensFrom(1, 8), 5), expected);
  const vocabulary = openVocabulary(under.handle);
  t.teardown(() => vocabulary.close());
  const alone = Array.from({ length: 200 }, (_, round) => [
    ...vocabulary.tokenize(`round ${round}, and on`, false, false),
  ]);
  for (const [answer] of await answers) t.same(answer, alone);
});

t.test('a worker terminated in the middle of native code ends, and the process goes on', async (t) => {
  for (let round = 0; round < 3; round++) {
    const worker = start('for-ever');
    await once(worker, 'message');
    t.equal(await worker.terminate(), 1);
    t.same(under.generate(tokensFrom(1, 8), 5), expected);
  }
});

t.test('a worker that dies of an exception with its engine open takes nothing with it', async (t) => {
  const worker = start('throw');
  // `once` would reject for the exit, because the error comes first.
  const ended = new Promise<number>((resolve) => worker.once('exit', resolve));
  const [error] = await once(worker, 'error');
  t.match((error as Error).message, /gives up/);
  t.equal(await ended, 1);
  t.same(under.generate(tokensFrom(1, 8), 5), expected);
});
