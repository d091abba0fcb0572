import t from 'tap';
import { HELLO, startServer, type TestServer } from './test-server.js';

/** Sends a request whose answer the test holds back, unless it is refused. */
function ask({ post }: TestServer, key: string, more: object = {}): Promise<Response> {
  return post('/v1/chat/completions', { messages: HELLO, ...more }, { 'x-api-key': key });
}

/** Sends `count` requests that all run before this resolves. */
async function hold(server: TestServer, key: string, count: number): Promise<Promise<Response>[]> {
  const replies = Array.from({ length: count }, () => ask(server, key));
  // Held to the end of the test, whose server then closes on them.
  for (const reply of replies) reply.catch(() => {});
  await server.pipeline.submitted(server.pipeline.requests.length + count);
  return replies;
}

t.test('of a busy server each key gets its part, and no other key suffers from one that wants more', async (t) => {
  const server = await startServer(t, { apiKeys: ['a', 'b'] });
  const { pipeline } = server;
  pipeline.activeMax = 8;
  const ofA = await hold(server, 'a', 4);
  const refused = await ask(server, 'a');
  t.equal(refused.status, 429);
  t.equal(refused.headers.get('retry-after'), '1');
  t.match(await refused.json(), {
    error: { code: 'rate_limited', type: 'rate_limit_error', message: /share .* is 4;/ },
  });
  await hold(server, 'b', 4);
  t.equal((await ask(server, 'b')).status, 429, 'and that is all of it');

  pipeline.requests[0].finish();
  await (await ofA[0]).text();
  await hold(server, 'a', 1);
  t.pass('a place that was given back can be taken again');
});

t.test('what nobody else needs, one key may have', async (t) => {
  const server = await startServer(t, { apiKeys: ['a', 'b', 'c', 'd'] });
  server.pipeline.activeMax = 8;
  await hold(server, 'a', 4);
  t.equal((await ask(server, 'a')).status, 429, 'beyond half of all the share counts');
  await hold(server, 'b', 2);
  t.equal((await ask(server, 'b')).status, 429);
});

t.test('every choice takes a place', async (t) => {
  const server = await startServer(t, { apiKeys: ['a', 'b'] });
  server.pipeline.activeMax = 8;
  t.equal((await ask(server, 'a', { n: 5 })).status, 429);
  t.equal(server.pipeline.activeCount, 0);
});

t.test('clients that go away give their places back', async (t) => {
  const server = await startServer(t, { apiKeys: ['a', 'b'] });
  server.pipeline.activeMax = 2;
  const gone = new AbortController();
  const headers = { 'content-type': 'application/json', 'x-api-key': 'a' };
  const body = JSON.stringify({ messages: HELLO });
  const reply = fetch(`${server.url}/v1/chat/completions`, { method: 'POST', headers, body, signal: gone.signal });
  await server.pipeline.submitted(1);
  gone.abort();
  await t.rejects(reply);
  await server.pipeline.cancelled();
  await hold(server, 'a', 1);
  t.pass();
});

t.test('one key, or none, has everything', async (t) => {
  for (const apiKeys of [[], ['a']]) {
    const server = await startServer(t, { apiKeys });
    server.pipeline.activeMax = 2;
    await hold(server, 'a', 2);
    t.equal(server.pipeline.activeCount, 2);
  }
});
