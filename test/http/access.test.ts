import t from 'tap';
import { HELLO, startServer } from './test-server.js';

t.test('a key is asked for everywhere but at the health checks', async (t) => {
  const { url, post, pipeline } = await startServer(t, { apiKeys: ['key-one', 'key-two'] });
  pipeline.onSubmit = (request) => request.finish();
  for (const path of ['/healthz', '/health', '/readyz']) t.equal((await fetch(url + path)).status, 200, path);
  for (const path of ['/metrics', '/v1/models', '/v1/load-line', '/openapi.json', '/v1/nothing']) {
    const response = await fetch(url + path);
    t.equal(response.status, 401, path);
    t.equal(((await response.json()) as { error: { code: string } }).error.code, 'invalid_api_key');
  }
  const status = async (headers: Record<string, string>) =>
    (await post('/v1/chat/completions', { messages: HELLO }, headers)).status;
  t.equal(await status({}), 401);
  t.equal(await status({ authorization: 'Bearer key-on' }), 401);
  t.equal(await status({ authorization: 'key-one' }), 401);
  t.equal(await status({ 'x-api-key': '' }), 401);
  t.equal(await status({ authorization: 'Bearer key-one' }), 200);
  t.equal(await status({ authorization: 'bearer key-two' }), 200);
  t.equal(await status({ 'x-api-key': 'key-two' }), 200);
});

t.test('keys share a cached prefix only where both name the same salt', async (t) => {
  const { post, pipeline } = await startServer(t, { apiKeys: ['key-one', 'key-two'] });
  pipeline.onSubmit = (request) => request.finish();
  const salt = async (key: string, cacheSalt?: string) => {
    await post('/v1/chat/completions', { messages: HELLO, cache_salt: cacheSalt }, { 'x-api-key': key });
    return pipeline.requests.at(-1)!.request.cacheSalt;
  };
  t.equal(await salt('key-one'), await salt('key-one'));
  t.not(await salt('key-one'), await salt('key-two'));
  t.equal(await salt('key-one', 'shared'), await salt('key-two', 'shared'));
  t.not(await salt('key-one', 'shared'), await salt('key-one'));
});

t.test('no CORS header unless an origin was asked for', async (t) => {
  const preflight = {
    method: 'OPTIONS',
    headers: { origin: 'http://a.test', 'access-control-request-method': 'POST' },
  };
  const closed = await startServer(t);
  const plain = await fetch(`${closed.url}/healthz`, { headers: { origin: 'http://a.test' } });
  t.equal(plain.headers.get('access-control-allow-origin'), null);
  t.equal(
    (await fetch(`${closed.url}/v1/chat/completions`, preflight)).headers.get('access-control-allow-origin'),
    null,
  );

  const open = await startServer(t, { corsOrigins: ['http://a.test'], apiKeys: ['k'] });
  const allowed = await fetch(`${open.url}/v1/chat/completions`, preflight);
  t.equal(allowed.status, 204);
  t.equal(allowed.headers.get('access-control-allow-origin'), 'http://a.test');
  t.match(allowed.headers.get('access-control-allow-headers'), /authorization/);
  const other = await fetch(`${open.url}/healthz`, { headers: { origin: 'http://b.test' } });
  t.equal(other.headers.get('access-control-allow-origin'), null);
  open.pipeline.onSubmit = (request) => {
    request.say('a');
    request.finish();
  };
  const headers = { origin: 'http://a.test', 'x-api-key': 'k' };
  const streamed = await open.post('/v1/chat/completions', { messages: HELLO, stream: true }, headers);
  t.equal(streamed.headers.get('access-control-allow-origin'), 'http://a.test');
});
