import { once } from 'node:events';
import net from 'node:net';
import t from 'tap';
import { HELLO, startServer, type TestServer } from './test-server.js';

/** A socket of our own: what a client library does between close and reset is not what is tested. */
async function send(server: TestServer, path: string, body: unknown): Promise<net.Socket> {
  const socket = net.connect(server.port, '127.0.0.1');
  await once(socket, 'connect');
  const json = JSON.stringify(body);
  socket.write(
    `POST ${path} HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: ${Buffer.byteLength(json)}\r\n\r\n${json}`,
  );
  return socket;
}

t.test('a closed connection cancels every choice that waits', async (t) => {
  const server = await startServer(t);
  for (const stream of [true, false]) {
    const before = server.pipeline.requests.length;
    const socket = await send(server, '/v1/chat/completions', { messages: HELLO, n: 3, stream });
    await server.pipeline.submitted(before + 3);
    t.equal(server.pipeline.activeCount, 3);
    socket.destroy();
    await server.pipeline.cancelled(before + 3);
    t.equal(server.pipeline.activeCount, 0);
  }
});

t.test('a closed connection cancels in the middle of the text, streamed or not', async (t) => {
  const server = await startServer(t);
  const streamed = await send(server, '/v1/completions', { prompt: 'a', stream: true });
  (await server.pipeline.submitted(1)).say('some text');
  await once(streamed, 'data');
  streamed.destroy();
  await server.pipeline.cancelled(1);
  server.pipeline.requests[0].say('late tokens hurt nobody');

  const whole = await send(server, '/v1/completions', { prompt: 'a' });
  (await server.pipeline.submitted(2)).say('some text');
  whole.resetAndDestroy();
  await server.pipeline.cancelled(2);
  t.equal(server.pipeline.activeCount, 0);
});

t.test('a client that ends its side of the connection is gone as well', async (t) => {
  const server = await startServer(t);
  const socket = await send(server, '/v1/completions', { prompt: 'a' });
  await server.pipeline.submitted(1);
  socket.end();
  await server.pipeline.cancelled(1);
  t.equal(server.pipeline.activeCount, 0);
});

t.test('a closed connection ends the preparation, and nothing is submitted', async (t) => {
  const server = await startServer(t);
  let open = () => {};
  server.prepare.gate = new Promise((resolve) => {
    open = resolve;
  });
  const socket = await send(server, '/v1/chat/completions', { messages: HELLO, stream: true });
  while (server.prepare.signals.length === 0) await new Promise((resolve) => setImmediate(resolve));
  const [signal] = server.prepare.signals;
  const aborted = once(signal, 'abort');
  socket.destroy();
  await aborted;
  open();
  // Another request through the same gate: when it has been submitted, the first would have been, too.
  const other = server.post('/v1/chat/completions', { messages: HELLO });
  const request = await server.pipeline.submitted(1);
  request.finish();
  t.equal((await other).status, 200);
  t.equal(server.pipeline.requests.length, 1);
});

t.test('a client that does not read is dropped, and its request cancelled', async (t) => {
  const server = await startServer(t, { clientBufferBytes: 64 * 1024 });
  const socket = await send(server, '/v1/completions', { prompt: 'a', stream: true });
  socket.pause();
  const request = await server.pipeline.submitted(1);
  const line = 'x'.repeat(200);
  // The kernel buffers some megabytes on loopback before ours fills; far more than that is never produced.
  for (let round = 0; round < 2000 && !request.isCancelled; round++) {
    request.say(line);
    await new Promise((resolve) => setImmediate(resolve));
  }
  t.equal(request.isCancelled, true);
  const metrics = await (await fetch(`${server.url}/metrics`)).text();
  t.match(metrics, /plimsoll_slow_client_drops_total 1/);
  t.match(metrics, /plimsoll_requests_total\{reason="cancelled"\} 1/);
  socket.destroy();
});

t.test('a connection lives on after a stream', async (t) => {
  const server = await startServer(t);
  server.pipeline.onSubmit = (request) => {
    request.say('ok');
    request.finish();
  };
  const socket = await send(server, '/v1/completions', { prompt: 'a', stream: true });
  let text = '';
  socket.on('data', (chunk) => {
    text += chunk;
  });
  while (!text.endsWith('0\r\n\r\n')) await once(socket, 'data');
  t.match(text, /\[DONE\]/);
  text = '';
  socket.write('GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n');
  while (!text.includes('{"status":"ok"}')) await once(socket, 'data');
  t.match(text, /200 OK/);
  socket.destroy();
});
