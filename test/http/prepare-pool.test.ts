import { setEnvironmentData } from 'node:worker_threads';
import t from 'tap';
import { WorkerPreparePool } from '../../src/main/prepare-pool.js';

const workerUrl = new URL('./fake-prepare-worker.js', import.meta.url);
const options = { addSpecial: false, parseSpecial: false };
const never = new AbortController().signal;

/** Word 0 opens the gate, word 1 says that a worker waits at it. */
function gated() {
  const words = new Int32Array(new SharedArrayBuffer(8));
  setEnvironmentData('gate', words.buffer);
  return {
    open: () => {
      Atomics.store(words, 0, 1);
      Atomics.notify(words, 0);
    },
    reached: async () => {
      const wait = Atomics.waitAsync(words, 1, 0);
      if (wait.async) await wait.value;
    },
  };
}

t.test('jobs run on a worker', async (t) => {
  gated();
  const pool = new WorkerPreparePool({ modelHandle: 1, threads: 1, workerUrl });
  t.teardown(() => pool.close());
  await pool.warmUp();
  t.same(Array.from(await pool.text('Aé', options, never)), [65, 262]);
  const inputs = JSON.stringify({ messages: [{ role: 'user', content: 'a' }] });
  const prompt = await pool.chat(inputs, never);
  t.same(Array.from(prompt.tokens), [256, 260, 97, 258, 261]);
  t.same(prompt.boundaries, [], 'nobody asked for them');
  t.equal(await pool.render(inputs, never), '<|user|>a<|end|><|assistant|>');
  t.equal(await pool.render(inputs, never), '<|user|>a<|end|><|assistant|>', 'and again');
  await t.rejects(pool.checkGrammar('root ::= "a"', never), { code: 'invalid_request', param: 'grammar' });
});

t.test('a client that goes frees its place and leaves the worker alone', async (t) => {
  const gate = gated();
  const pool = new WorkerPreparePool({ modelHandle: 1, threads: 1, queueLimit: 2, workerUrl });
  t.teardown(() => pool.close());
  const [thread] = await pool.text('thread', options, never);
  const running = new AbortController();
  const queued = new AbortController();
  const first = pool.text('wait', options, running.signal);
  await gate.reached();
  const second = pool.text('b', options, queued.signal);
  const third = pool.text('thread', options, never);
  await t.rejects(pool.text('d', options, never), { code: 'queue_full', retryAfterSeconds: 1 });
  queued.abort();
  running.abort();
  await t.rejects(second, { name: 'AbortError' });
  await t.rejects(first, { name: 'AbortError' });
  gate.open();
  t.equal((await third)[0], thread, 'the same worker goes on');
});

t.test('a job that does not end gets its client an answer', async (t) => {
  const gate = gated();
  const pool = new WorkerPreparePool({ modelHandle: 1, threads: 1, jobTimeoutMs: 20, workerUrl });
  t.teardown(() => pool.close());
  await t.rejects(pool.text('wait', options, never), { code: 'invalid_request', message: /too long/ });
  gate.open();
});

t.test('a worker that cannot start is an error, not a hang', async (t) => {
  const pool = new WorkerPreparePool({
    modelHandle: 1,
    threads: 1,
    workerUrl: new URL('./no-such-file.js', import.meta.url),
  });
  t.teardown(() => pool.close());
  await t.rejects(pool.warmUp());
});
