/** The HTTP side of a model that is unloaded: ready all along, and the request that brings it back waits. */
import { pino } from 'pino';
import t from 'tap';
import { httpConfig } from '../../src/main/http/http-config.js';
import { createServer } from '../../src/main/http/server.js';
import { StartError } from '../../src/main/start-error.js';
import { startFakeResidence, untilResidence } from '../support/fake-residence.js';

t.setTimeout(120_000);

const failures: Error[] = [];
const fake = await startFakeResidence({ failedPauseMs: 1 }, {}, {}, async () => {
  const failure = failures.shift();
  if (failure) throw failure;
});
const { pipeline, prepare } = fake.residence;
const app = createServer({
  pipeline,
  prepare,
  config: httpConfig({ modelName: 'fake' }),
  logger: pino({ level: 'silent' }),
});
t.teardown(async () => {
  await app.close();
  await fake.residence.close(0);
});

const complete = (prompt: unknown) =>
  app.inject({
    method: 'POST',
    url: '/v1/completions',
    payload: { model: 'fake', prompt, max_tokens: 5, temperature: 0 },
  });
const metric = async (line: string) => (await app.inject('/metrics')).payload.split('\n').includes(line);

t.test('while it is unloaded the server is ready, and says what it is', async (t) => {
  await untilResidence(fake, 'unloaded');
  t.equal((await app.inject('/readyz')).statusCode, 200);
  t.equal((await app.inject('/v1/models')).statusCode, 200);
  t.match((await app.inject('/v1/load-line')).json(), { residence: 'unloaded', device: { weightsBytes: 0 } });
  t.ok(await metric('plimsoll_model_loaded 0'));
  t.ok(await metric('plimsoll_model_residence{state="unloaded"} 1'));
  t.ok(await metric('plimsoll_model_residence{state="ready"} 0'));
  t.equal(pipeline.residence, 'unloaded', 'looking does not load it');
});

t.test('a request brings it back and gets its answer, whether its prompt is text or tokens', async (t) => {
  for (const prompt of ['text', [1, 2, 3]]) {
    await untilResidence(fake, 'unloaded');
    const reply = await complete(prompt);
    t.equal(reply.statusCode, 200);
    t.match(reply.json(), { usage: { completion_tokens: 5 } });
  }
  const release = fake.residence.hold();
  await complete('text');
  t.ok(await metric('plimsoll_model_loaded 1'));
  release();
});

t.test('so do tokens and templates', async (t) => {
  await untilResidence(fake, 'unloaded');
  const reply = await app.inject({ method: 'POST', url: '/tokenize', payload: { content: 'ab' } });
  t.same(reply.json(), { tokens: [97, 98] });
});

t.test('a load that fails is a 503 that says when to come back', async (t) => {
  for (const prompt of ['text', [1, 2, 3]]) {
    await untilResidence(fake, 'unloaded');
    failures.push(new StartError('out_of_memory', 'no memory'));
    const reply = await complete(prompt);
    t.equal(reply.statusCode, 503);
    t.match(reply.json(), { error: { code: 'insufficient_memory', message: /could not be loaded again: no memory/ } });
    t.equal(reply.headers['retry-after'], '1');
    t.equal((await app.inject('/readyz')).statusCode, 200);
  }
  t.equal((await complete('text')).statusCode, 200);
});
