import { once } from 'node:events';
import net from 'node:net';
import t from 'tap';
import { ERRORS, PlimsollError } from '../../src/shared/errors.js';
import { HELLO, startServer } from './test-server.js';

interface Reply {
  error: { message: string; type: string; param: string | null; code: string };
}

const json = async (response: Response) => (await response.json()) as Reply;

t.test('every field says what is allowed, and names itself', async (t) => {
  const { post, pipeline } = await startServer(t);
  const cases: Array<[body: object, param: string, message: RegExp]> = [
    [{ temperature: 2.5 }, 'temperature', /from 0 to 2/],
    [{ temperature: 'hot' }, 'temperature', /number/],
    [{ top_p: 1.1 }, 'top_p', /from 0 to 1/],
    [{ top_k: 1.5 }, 'top_k', /integer/],
    [{ n: 0 }, 'n', /from 1 to 16/],
    [{ max_tokens: 0 }, 'max_tokens', /at least 1/],
    [{ max_completion_tokens: -2 }, 'max_completion_tokens', /integer/],
    [{ stop: new Array(17).fill('a') }, 'stop', /at most 16/],
    [{ stop: ['a', 5] }, 'stop[1]', /string/],
    [{ stop: '\ud83d' }, 'stop[0]', /Unicode/],
    [{ stream: 'yes' }, 'stream', /true or false/],
    [{ stream_options: { include_usage: 1 } }, 'stream_options.include_usage', /true or false/],
    [{ presence_penalty: -3 }, 'presence_penalty', /from -2 to 2/],
    [{ repeat_penalty: 0 }, 'repeat_penalty', /from 0.01 to 10/],
    [{ logit_bias: { 5: 101 } }, 'logit_bias', /-100 to 100/],
    [{ logit_bias: { 99999: 1 } }, 'logit_bias', /token ids/],
    [{ logit_bias: { word: 1 } }, 'logit_bias', /token ids/],
    [{ seed: 1.5 }, 'seed', /integer/],
    [{ top_logprobs: 2 }, 'top_logprobs', /logprobs/],
    [{ top_logprobs: 21, logprobs: true }, 'top_logprobs', /from 0 to 20/],
    [{ response_format: { type: 'json_object' } }, 'response_format.type', /not supported/],
    [{ response_format: { type: 'xml' } }, 'response_format.type', /one of/],
    [{ tools: [{ type: 'function' }] }, 'tools', /not supported/],
    [{ tool_choice: 'required' }, 'tool_choice', /none/],
    [{ functions: [] }, 'functions', /not supported/],
    [{ modalities: ['audio'] }, 'modalities', /text/],
    [{ grammar: 'root ::= "a"' }, 'grammar', /cannot be used/],
    [{ messages: [] }, 'messages', /1 to/],
    [{ messages: 'hi' }, 'messages', /array/],
    [{ messages: [{ role: 'king', content: 'a' }] }, 'messages[0].role', /one of/],
    [{ messages: [{ role: 'user' }] }, 'messages[0].content', /string/],
    [{ messages: [{ role: 'user', content: 5 }] }, 'messages[0].content', /string/],
    [{ messages: [{ role: 'user', content: [{ type: 'image_url' }] }] }, 'messages[0].content[0].type', /image_url/],
    [{ messages: [{ role: 'user', content: [{ type: 'text' }] }] }, 'messages[0].content[0].text', /string/],
  ];
  for (const [body, param, message] of cases) {
    const response = await post('/v1/chat/completions', { messages: HELLO, ...body });
    const { error } = await json(response);
    t.equal(response.status, 400, param);
    t.match(error, { code: 'invalid_request', param, message }, JSON.stringify(body).slice(0, 80));
  }
  t.equal(pipeline.requests.length, 0);
});

t.test('null is absent, and unknown fields are ignored', async (t) => {
  const { post, pipeline } = await startServer(t);
  pipeline.onSubmit = (request) => request.finish();
  const fields = [
    'temperature',
    'stop',
    'seed',
    'logit_bias',
    'tools',
    'tool_choice',
    'response_format',
    'stream_options',
    'max_tokens',
  ];
  const nulls = Object.fromEntries(fields.map((field) => [field, null]));
  const extra = {
    user: 'u',
    store: true,
    metadata: { a: 1 },
    service_tier: 'auto',
    parallel_tool_calls: false,
    verbosity: 'low',
  };
  const response = await post('/v1/chat/completions', { messages: HELLO, ...nulls, ...extra });
  t.equal(response.status, 200);
  t.match(pipeline.requests[0].request.sampling, {
    temperature: 0.8,
    topK: 40,
    topP: 0.95,
    minP: 0.05,
    logprobs: -1,
    grammar: '',
  });
});

t.test('parameters reach the sampler as they were sent', async (t) => {
  const { post, pipeline } = await startServer(t);
  pipeline.onSubmit = (request) => request.finish();
  await post('/v1/chat/completions', {
    messages: HELLO,
    temperature: 0,
    top_k: -1,
    top_p: 0.5,
    min_p: 0.1,
    repetition_penalty: 1.2,
    frequency_penalty: 0.3,
    presence_penalty: -0.4,
    seed: 2 ** 32 + 5,
    logit_bias: { 65: -100 },
    ignore_eos: true,
    max_tokens: 7,
    priority: -2,
    cache_salt: 'mine',
    speculative: false,
  });
  const { request } = pipeline.requests[0];
  t.match(request.sampling, {
    temperature: 0,
    topK: 0,
    topP: 0.5,
    minP: 0.1,
    repeatPenalty: 1.2,
    frequencyPenalty: 0.3,
    presencePenalty: -0.4,
    seed: 5,
    logitBias: [[65, -100]],
    ignoreEos: true,
    maxTokens: 7,
  });
  t.equal(request.priority, -2);
  t.not(request.cacheSalt, 0);
  t.equal(request.noDrafts, true);
});

t.test('over the context: both numbers, and the phrases that clients look for', async (t) => {
  const { post, pipeline } = await startServer(t);
  pipeline.contextTokens = 50;
  const long = await json(
    await post('/v1/chat/completions', { messages: [{ role: 'user', content: 'x'.repeat(60) }] }),
  );
  t.match(long.error, { code: 'context_length_exceeded', param: 'messages' });
  t.match(long.error.message, /maximum context length is 50 tokens.*exceeds the available context size/);
  const output = await json(await post('/v1/completions', { prompt: 'abc', max_tokens: 47 }));
  t.match(output.error, { code: 'context_length_exceeded', param: 'prompt' });
  t.match(output.error.message, /51/);
  pipeline.onSubmit = (request) => request.finish();
  await post('/v1/completions', { prompt: 'abc' });
  t.equal(pipeline.requests[0].request.sampling.maxTokens, 46, 'without a limit: to the end of the context');
});

t.test('text completions refuse what they cannot do', async (t) => {
  const { post } = await startServer(t);
  const cases: Array<[body: object, param: string]> = [
    [{}, 'prompt'],
    [{ prompt: 5 }, 'prompt'],
    [{ prompt: [] }, 'prompt'],
    [{ prompt: [1, 'a'] }, 'prompt'],
    [{ prompt: [99999] }, 'prompt'],
    [{ prompt: 'a', suffix: 'b' }, 'suffix'],
    [{ prompt: 'a', best_of: 2 }, 'best_of'],
    [{ prompt: 'a', echo: true, logprobs: 1 }, 'logprobs'],
  ];
  for (const [body, param] of cases) {
    const response = await post('/v1/completions', body);
    t.equal(response.status, 400);
    t.match(await json(response), { error: { code: 'invalid_request', param } }, JSON.stringify(body));
  }
});

t.test('requests that reach no handler', async (t) => {
  const { post, url } = await startServer(t, { bodyLimitBytes: 100 });
  const expect = async (response: Response, status: number, code: string) => {
    t.equal(response.status, status, code);
    t.ok(response.headers.get('x-request-id'), code);
    t.match(await json(response), { error: { code, type: ERRORS[code as keyof typeof ERRORS].type } });
  };
  await expect(await post('/v1/chat/completions', '{"a'), 400, 'invalid_request');
  await expect(await post('/v1/chat/completions', ''), 400, 'invalid_request');
  await expect(await post('/v1/chat/completions', '[1]'), 400, 'invalid_request');
  await expect(await post('/v1/chat/completions', 'null'), 400, 'invalid_request');
  await expect(await post('/v1/chat/completions', { a: 'x'.repeat(200) }), 413, 'request_too_large');
  await expect(
    await post('/v1/chat/completions', '{}', { 'content-type': 'text/plain' }),
    415,
    'unsupported_media_type',
  );
  await expect(await fetch(`${url}/v1/nothing`), 404, 'not_found');
  const method = await fetch(`${url}/v1/chat/completions`);
  t.equal(method.headers.get('allow'), 'POST');
  await expect(method, 405, 'method_not_allowed');
  await expect(await fetch(`${url}/v1/models`, { method: 'DELETE' }), 405, 'method_not_allowed');
});

t.test('our own fault: a request id, no details, and the details in the log', async (t) => {
  const { post, pipeline, logs } = await startServer(t);
  pipeline.refusal = new Error('secret detail') as PlimsollError;
  const response = await post('/v1/chat/completions', { messages: HELLO }, { 'x-request-id': 'mine-1' });
  t.equal(response.status, 500);
  t.equal(response.headers.get('x-request-id'), 'mine-1');
  const { error } = await json(response);
  t.match(error, { code: 'internal', message: /mine-1/ });
  t.notMatch(JSON.stringify(error), /secret/);
  t.match(logs.join(''), /secret detail/);
});

t.test('retry headers follow the table', async (t) => {
  const { post, pipeline } = await startServer(t);
  for (const code of Object.keys(ERRORS) as Array<keyof typeof ERRORS>) {
    pipeline.refusal = new PlimsollError(code, 'x', { retryAfterSeconds: 2.5 });
    const response = await post('/v1/chat/completions', { messages: HELLO });
    const entry = ERRORS[code];
    t.equal(response.status, entry.status, code);
    const sdksRetry = entry.status >= 500 || [408, 409, 429].includes(entry.status);
    t.equal(response.headers.get('x-should-retry'), sdksRetry && !entry.retry ? 'false' : null, code);
    t.equal(response.headers.get('retry-after'), entry.retry ? '3' : null, code);
  }
});

t.test('a request that does not arrive in time gets 408, one that is no HTTP gets 400', async (t) => {
  const { port } = await startServer(t, { headersTimeoutMs: 100, requestTimeoutMs: 100 });
  const ask = async (text: string) => {
    const socket = net.connect(port, '127.0.0.1');
    socket.write(text);
    let reply = '';
    socket.on('data', (chunk) => {
      reply += chunk;
    });
    await once(socket, 'close');
    return reply;
  };
  t.match(await ask('POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\n'), /^HTTP\/1.1 408 .*"code":"request_timeout"/s);
  t.match(await ask('hello\r\n\r\n'), /^HTTP\/1.1 400 .*"code":"invalid_request"/s);
});

t.test('nothing of a request is in the log or the metrics', async (t) => {
  const { post, pipeline, logs, url } = await startServer(t);
  pipeline.onSubmit = (request) => {
    request.say('answerword');
    request.finish();
  };
  await post('/v1/chat/completions', { messages: [{ role: 'user', content: 'questionword' }] });
  await post('/v1/chat/completions?q=questionword', { messages: [{ role: 'questionword', content: 'a' }] });
  await fetch(`${url}/questionword`);
  const seen = logs.join('') + (await (await fetch(`${url}/metrics`)).text());
  t.notMatch(seen, /questionword|answerword/);
  t.match(seen, /"route":"\/v1\/chat\/completions"/);
});
