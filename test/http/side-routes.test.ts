import t from 'tap';
import { HELLO, startServer } from './test-server.js';

t.test('tokenize, detokenize and apply-template', async (t) => {
  const { post } = await startServer(t);
  const json = async (path: string, body: unknown) =>
    (await (await post(path, body)).json()) as Record<string, unknown>;
  t.same(await json('/tokenize', { content: 'Aé' }), { tokens: [65, 262] });
  t.same(await json('/tokenize', { content: 'A', add_special: true }), { tokens: [256, 65] });
  t.same(await json('/tokenize', { content: '🙂', with_pieces: true }), {
    tokens: [
      { id: 267, piece: [240, 159] },
      { id: 268, piece: [153, 130] },
    ],
  });
  t.same(await json('/detokenize', { tokens: [267, 268, 65] }), { content: '🙂A' });
  t.match(await json('/detokenize', { tokens: [9999] }), { error: { param: 'tokens' } });
  t.match(await json('/detokenize', { tokens: [-1] }), { error: { param: 'tokens[0]' } });
  t.same(await json('/apply-template', { messages: HELLO }), { prompt: '<|user|>hello<|end|><|assistant|>' });
});

t.test('a last message of the assistant is continued', async (t) => {
  const { post, pipeline } = await startServer(t);
  const messages = [
    ...HELLO,
    {
      role: 'assistant',
      content: [
        { type: 'text', text: 'Once' },
        { type: 'text', text: 'upon' },
      ],
    },
  ];
  t.same(await (await post('/apply-template', { messages })).json(), {
    prompt: '<|user|>hello<|end|><|assistant|>Once\nupon',
  });
  pipeline.onSubmit = (request) => {
    request.say(' a time');
    request.finish();
  };
  const reply = (await (await post('/v1/chat/completions', { messages })).json()) as {
    choices: Array<{ message: { content: string } }>;
  };
  t.equal(reply.choices[0].message.content, ' a time');
});

t.test('side jobs queue within a bound, and apart from generations', async (t) => {
  const { post, prepare } = await startServer(t, { sideJobsRunning: 1, sideJobsWaiting: 1 });
  let open = () => {};
  prepare.gate = new Promise((resolve) => {
    open = resolve;
  });
  const first = post('/tokenize', { content: 'a' });
  while (prepare.signals.length === 0) await new Promise((resolve) => setImmediate(resolve));
  const others = [post('/tokenize', { content: 'a' }), post('/tokenize', { content: 'a' })];
  const refused = await Promise.race(others);
  t.equal(refused.status, 429);
  open();
  const statuses = await Promise.all([first, ...others].map(async (response) => (await response).status));
  t.same(statuses.sort(), [200, 200, 429]);
});

t.test('metrics: gauges of the pipeline, histograms of the requests', async (t) => {
  const { post, pipeline, url } = await startServer(t);
  pipeline.onSubmit = (request) => {
    request.start(2);
    request.say('abc');
    request.finish('length');
  };
  await post('/v1/chat/completions', { messages: HELLO });
  await post('/v1/chat/completions', { messages: HELLO, temperature: 9 });
  const response = await fetch(`${url}/metrics`);
  t.match(response.headers.get('content-type'), /^text\/plain/);
  const text = await response.text();
  const promptTokens = pipeline.requests[0].request.promptTokens.length;
  for (const line of [
    'plimsoll_headroom_bytes 11',
    'plimsoll_ledger_bytes{owner="weights"} 12',
    'plimsoll_running_requests 6',
    'plimsoll_generation_tokens_total 3',
    `plimsoll_prompt_tokens_total ${promptTokens}`,
    'plimsoll_cached_prompt_tokens_total 2',
    'plimsoll_requests_total{reason="length"} 1',
    'plimsoll_request_errors_total{code="invalid_request"} 1',
    'plimsoll_time_to_first_token_seconds_count 1',
    'plimsoll_inter_token_latency_seconds_count 2',
    'plimsoll_inter_token_latency_seconds_bucket{le="+Inf"} 2',
    'plimsoll_e2e_request_latency_seconds_count 1',
    'plimsoll_model_loaded 1',
  ]) {
    t.ok(text.split('\n').includes(line), line);
  }
});

t.test('the load line and the API document', async (t) => {
  const { url } = await startServer(t);
  t.match(await (await fetch(`${url}/v1/load-line`)).json(), {
    context_tokens: 4096,
    active_requests: 0,
    device: { headroomBytes: 11 },
    scheduler: { runningRequests: 6 },
  });
  const document = (await (await fetch(`${url}/openapi.json`)).json()) as { paths: Record<string, unknown> };
  t.match(document, { openapi: '3.1.0', paths: { '/v1/chat/completions': { post: {} } } });
  t.match(JSON.stringify(document.paths['/v1/chat/completions']), /"temperature"/);
});

t.test('bodies with more elements than anybody needs: a 400 that names the field', async (t) => {
  const { post } = await startServer(t);
  const refused = async (path: string, body: object, param: string) => {
    const response = await post(path, body);
    t.equal(response.status, 400, param);
    t.match(await response.json(), { error: { param } });
  };
  const many = new Array(200_000).fill(0);
  await refused('/v1/chat/completions', { messages: [{ role: 'user', content: many }] }, 'messages[0].content');
  await refused('/v1/chat/completions', { messages: HELLO, tools: many }, 'tools');
  await refused('/v1/chat/completions', { messages: HELLO, logit_bias: many }, 'logit_bias');
  await refused('/detokenize', { tokens: new Array(2 ** 20 + 1).fill(65) }, 'tokens');
  await refused('/apply-template', { messages: HELLO, tools: [{ type: 'function' }] }, 'tools');
});
