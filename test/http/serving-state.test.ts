import t from 'tap';
import { eventsOf, HELLO, startServer } from './test-server.js';

const code = async (response: Response) => ((await response.json()) as { error: { code: string } }).error.code;

t.test('it listens before the model is there', async (t) => {
  const { url, post, app, pipeline, prepare } = await startServer(t, {}, { loaded: false });
  t.equal((await fetch(`${url}/healthz`)).status, 200);
  for (const path of ['/readyz', '/health', '/v1/models']) {
    const response = await fetch(url + path);
    t.equal(response.status, 503, path);
    t.ok(response.headers.get('retry-after'), path);
    t.equal(await code(response), 'loading');
  }
  t.equal(await code(await post('/v1/chat/completions', { messages: HELLO })), 'loading');
  t.match(await (await fetch(`${url}/metrics`)).text(), /plimsoll_model_loaded 0/);
  app.attach(pipeline, prepare);
  t.equal((await fetch(`${url}/readyz`)).status, 200);
  pipeline.onSubmit = (request) => request.finish();
  t.equal((await post('/v1/chat/completions', { messages: HELLO })).status, 200);
  app.detach();
  t.equal((await fetch(`${url}/readyz`)).status, 503);
});

t.test('a drain refuses new work and lets streams finish', async (t) => {
  const { url, post, app, pipeline } = await startServer(t);
  const streaming = post('/v1/chat/completions', { messages: HELLO, stream: true });
  const request = await pipeline.submitted();
  request.say('a');
  const response = await streaming;
  let isDrained = false;
  const drained = app.drain(60_000).then((late) => {
    isDrained = true;
    return late;
  });
  const refused = await post('/v1/chat/completions', { messages: HELLO });
  t.equal(refused.status, 503);
  t.ok(refused.headers.get('retry-after'));
  t.equal(await code(refused), 'draining');
  t.equal((await fetch(`${url}/healthz`)).status, 200);
  t.equal((await fetch(`${url}/readyz`)).status, 503);
  t.equal(isDrained, false);
  request.say('b');
  request.finish();
  t.equal(await drained, 0);
  t.equal(eventsOf(await response.text()).at(-1), '[DONE]');
});

t.test('what is not done in time is ended, and told so', async (t) => {
  const { post, app, pipeline } = await startServer(t);
  const streamed = post('/v1/chat/completions', { messages: HELLO, stream: true });
  (await pipeline.submitted(1)).say('a');
  const response = await streamed;
  const whole = post('/v1/chat/completions', { messages: HELLO });
  await pipeline.submitted(2);
  t.equal(await app.drain(1), 2);
  t.equal(await code(await whole), 'draining');
  t.match(eventsOf(await response.text()).at(-1), /"code":"draining"/);
  t.equal(pipeline.activeCount, 0);
});

t.test('a pipeline that cancels by itself is not a finished text', async (t) => {
  const { post, pipeline } = await startServer(t);
  pipeline.onSubmit = (request) => {
    request.say('a');
    request.finish('cancelled');
  };
  const response = await post('/v1/chat/completions', { messages: HELLO });
  t.equal(response.status, 503);
});
