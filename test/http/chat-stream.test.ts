import t from 'tap';
import { PlimsollError } from '../../src/shared/errors.js';
import { FAKE_FIRST_HALF, FAKE_SECOND_HALF } from '../../src/workers/fake-vocabulary.js';
import { eventsOf, HELLO, startServer } from './test-server.js';

t.test('one chunk a token, the role with the first, an empty delta at the end, then [DONE]', async (t) => {
  const { pipeline, post } = await startServer(t);
  pipeline.onSubmit = (request) => {
    request.start();
    request.say('Hi é"\n');
    request.finish();
  };
  const response = await post('/v1/chat/completions', { messages: HELLO, stream: true });
  t.equal(response.status, 200);
  t.match(response.headers.get('content-type'), /^text\/event-stream/);
  t.ok(response.headers.get('x-request-id'));
  const events = eventsOf(await response.text());
  t.equal(events.at(-1), '[DONE]');
  const chunks = events.slice(0, -1).map((event) => JSON.parse(event));
  t.equal(chunks.length, 7, 'six tokens and the final chunk');
  t.same(chunks[0].choices[0].delta, { role: 'assistant', content: 'H' });
  t.same(chunks[3].choices[0].delta, { content: 'é' });
  t.equal(
    chunks.slice(0, -1).every((chunk) => chunk.choices[0].finish_reason === null),
    true,
  );
  t.same(chunks[6].choices[0].delta, {});
  t.equal(chunks[6].choices[0].finish_reason, 'stop');
  t.equal(chunks[6].timings.predicted_n, 6);
  t.equal(new Set(chunks.map((chunk) => `${chunk.id} ${chunk.created} ${chunk.object} ${chunk.model}`)).size, 1);
  t.equal(chunks[0].object, 'chat.completion.chunk');
  t.notOk('usage' in chunks[0]);
});

t.test('usage comes in a chunk without choices, only when asked, for all choices', async (t) => {
  const { pipeline, post } = await startServer(t);
  pipeline.onSubmit = (request) => {
    request.start(3);
    request.say('abc');
    request.finish('length');
  };
  const response = await post('/v1/chat/completions', {
    messages: HELLO,
    stream: true,
    n: 2,
    stream_options: { include_usage: true },
  });
  const chunks = eventsOf(await response.text())
    .slice(0, -1)
    .map((event) => JSON.parse(event));
  const last = chunks.at(-1);
  t.same(last.choices, []);
  const promptTokens = pipeline.requests[0].request.promptTokens.length;
  t.same(last.usage, {
    prompt_tokens: promptTokens,
    completion_tokens: 6,
    total_tokens: promptTokens + 6,
    prompt_tokens_details: { cached_tokens: 3 },
    completion_tokens_details: { reasoning_tokens: 0 },
  });
  t.equal(chunks[0].usage, null);
  const finishes = chunks.slice(0, -1).filter((chunk) => chunk.choices[0].finish_reason !== null);
  t.same(finishes.map((chunk) => [chunk.choices[0].index, chunk.choices[0].finish_reason]).sort(), [
    [0, 'length'],
    [1, 'length'],
  ]);
  t.not(pipeline.requests[0].request.sampling.seed, pipeline.requests[1].request.sampling.seed);
});

t.test('bytes of a split character are an empty chunk, then the character', async (t) => {
  const { pipeline, post } = await startServer(t);
  pipeline.onSubmit = (request) => {
    request.tokens([FAKE_FIRST_HALF, FAKE_SECOND_HALF, FAKE_FIRST_HALF]);
    request.finish();
  };
  const response = await post('/v1/chat/completions', { messages: HELLO, stream: true });
  const chunks = eventsOf(await response.text())
    .slice(0, -1)
    .map((event) => JSON.parse(event).choices[0].delta.content);
  t.same(chunks, ['', '🙂', '', '�', undefined]);
});

t.test('a stop string across chunks ends the stream, is not shown, and cancels the request', async (t) => {
  const { pipeline, post } = await startServer(t);
  pipeline.onSubmit = (request) => {
    request.say('one ST');
    request.say('OP two');
  };
  const response = await post('/v1/chat/completions', { messages: HELLO, stream: true, stop: 'STOP' });
  const chunks = eventsOf(await response.text())
    .slice(0, -1)
    .map((event) => JSON.parse(event));
  t.equal(chunks.map((chunk) => chunk.choices[0].delta.content ?? '').join(''), 'one ');
  t.equal(chunks.at(-1).choices[0].finish_reason, 'stop');
  t.equal(pipeline.requests[0].isCancelled, true);
  t.equal(pipeline.activeCount, 0);
});

t.test('what was held for a stop string comes out when the text ends', async (t) => {
  const { pipeline, post } = await startServer(t);
  pipeline.onSubmit = (request) => {
    request.say('one ST');
    request.finish('length');
  };
  const response = await post('/v1/chat/completions', { messages: HELLO, stream: true, stop: ['STOP', ''] });
  const chunks = eventsOf(await response.text())
    .slice(0, -1)
    .map((event) => JSON.parse(event));
  t.equal(chunks.map((chunk) => chunk.choices[0].delta.content ?? '').join(''), 'one ST');
  t.same(chunks.at(-1).choices[0], { index: 0, delta: {}, logprobs: null, finish_reason: 'length' });
});

t.test('an answer without a token still has a role', async (t) => {
  const { pipeline, post } = await startServer(t);
  pipeline.onSubmit = (request) => request.finish();
  const response = await post('/v1/chat/completions', { messages: HELLO, stream: true });
  const chunks = eventsOf(await response.text())
    .slice(0, -1)
    .map((event) => JSON.parse(event));
  t.same(
    chunks.map((chunk) => chunk.choices[0].delta),
    [{ role: 'assistant', content: '' }, {}],
  );
});

t.test('an error before the first token has its own status', async (t) => {
  const { pipeline, post } = await startServer(t);
  pipeline.onSubmit = (request) => request.fail(new PlimsollError('insufficient_memory', 'No memory came in time.'));
  const response = await post('/v1/chat/completions', { messages: HELLO, stream: true });
  t.equal(response.status, 503);
  t.equal(response.headers.get('retry-after'), '5');
  t.equal(((await response.json()) as { error: { code: string } }).error.code, 'insufficient_memory');
});

t.test('a later error is one event, without [DONE]', async (t) => {
  const { pipeline, post } = await startServer(t);
  pipeline.onSubmit = (request) => {
    request.say('a');
    request.fail(new PlimsollError('internal', 'The engine failed.'));
  };
  const response = await post('/v1/chat/completions', { messages: HELLO, stream: true });
  t.equal(response.status, 200);
  const events = eventsOf(await response.text()).map((event) => JSON.parse(event));
  t.equal(events.length, 2);
  t.same(events[1], { error: { message: 'The engine failed.', type: 'server_error', param: null, code: 'internal' } });
});

t.test('headers and comments come while the request waits', async (t) => {
  const { pipeline, post } = await startServer(t, { firstResultWaitMs: 10, ssePingIntervalMs: 10 });
  const response = await post('/v1/chat/completions', { messages: HELLO, stream: true });
  t.equal(response.status, 200, 'headers before any token');
  const reader = response.body!.getReader();
  let text = '';
  const readUntil = async (part: string) => {
    while (!text.includes(part)) text += new TextDecoder().decode((await reader.read()).value);
  };
  await readUntil(': waiting\n\n');
  await readUntil(': ping\n\n');
  const request = await pipeline.submitted();
  request.fail(new PlimsollError('insufficient_memory', 'No memory came in time.'));
  await readUntil('"code":"insufficient_memory"');
  t.equal((await reader.read()).done, true);
  t.notMatch(text, /\[DONE\]/);
});

t.test('logprobs, timings and progress come in the chunks that asked for them', async (t) => {
  const { pipeline, post } = await startServer(t);
  pipeline.onSubmit = (request) => {
    request.start(2);
    request.listener.progress?.(4);
    request.token({ token: 65, logprob: -0.5, top: [{ token: 66, logprob: Number.NEGATIVE_INFINITY }] });
    request.finish();
  };
  const response = await post('/v1/chat/completions', {
    messages: HELLO,
    stream: true,
    logprobs: true,
    top_logprobs: 1,
    timings_per_token: true,
    return_progress: true,
  });
  const [progress, token] = eventsOf(await response.text())
    .slice(0, 2)
    .map((event) => JSON.parse(event));
  t.match(progress.prompt_progress, { cache: 2, processed: 4 });
  t.same(progress.choices[0].delta, {}, 'the role waits for the first real token');
  t.equal(token.choices[0].delta.role, 'assistant');
  t.same(token.choices[0].logprobs.content, [
    { token: 'A', logprob: -0.5, bytes: [65], top_logprobs: [{ token: 'B', logprob: -9999, bytes: [66] }] },
  ]);
  t.equal(token.timings.cache_n, 2);
  t.equal(pipeline.requests[0].request.sampling.logprobs, 1);
});
