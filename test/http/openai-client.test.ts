import { APIError } from 'openai';
import t from 'tap';
import { PlimsollError } from '../../src/shared/errors.js';
import { HELLO, startServer } from './test-server.js';

t.test('a chat completion, streamed and whole, is the same text', async (t) => {
  const { pipeline, openai } = await startServer(t);
  const text = 'Grüße, 日本語 🙂 "quoted"\n\\end';
  pipeline.onSubmit = (request) => {
    request.start();
    request.say(text);
    request.finish();
  };
  const body = { model: 'fake-model', messages: HELLO };
  const completion = await openai.chat.completions.create(body);
  t.equal(completion.object, 'chat.completion');
  t.same(completion.choices[0].message, { role: 'assistant', content: text, refusal: null });
  t.equal(completion.choices[0].finish_reason, 'stop');
  t.equal(completion.choices[0].logprobs, null);
  t.equal(completion.usage?.total_tokens, completion.usage!.prompt_tokens + completion.usage!.completion_tokens);

  const runner = openai.chat.completions.stream(body);
  const final = await runner.finalChatCompletion();
  t.equal(final.choices[0].message.content, text);
});

t.test('a whole reply has one choice for each n, logprobs, and llama.cpp timings', async (t) => {
  const { pipeline, openai } = await startServer(t);
  pipeline.onSubmit = (request) => {
    request.start(1);
    request.token({ token: 65 + request.id, logprob: -1, top: [{ token: 65, logprob: -2 }] });
    request.finish('length');
  };
  const reply = await openai.chat.completions.create({
    model: 'fake-model',
    messages: HELLO,
    n: 3,
    logprobs: true,
    top_logprobs: 1,
  });
  t.same(
    reply.choices.map((choice) => choice.message.content),
    ['B', 'C', 'D'],
  );
  t.same(
    reply.choices.map((choice) => choice.index),
    [0, 1, 2],
  );
  t.equal(reply.choices[1].finish_reason, 'length');
  t.same(reply.choices[0].logprobs?.content, [
    { token: 'B', logprob: -1, bytes: [66], top_logprobs: [{ token: 'A', logprob: -2, bytes: [65] }] },
  ]);
  t.match(reply, { usage: { completion_tokens: 3 }, timings: { predicted_n: 3, cache_n: 3 } });
});

t.test('text completions: several prompts, echo, legacy logprobs', async (t) => {
  const { pipeline, openai } = await startServer(t);
  pipeline.onSubmit = (request) => {
    request.say('xy');
    request.finish();
  };
  const echoed = await openai.completions.create({ model: 'fake-model', prompt: ['ab', 'cd'], n: 2, echo: true });
  t.same(
    echoed.choices.map((choice) => choice.text),
    ['abxy', 'abxy', 'cdxy', 'cdxy'],
  );
  t.same(
    echoed.choices.map((choice) => choice.index),
    [0, 1, 2, 3],
  );
  t.equal(echoed.usage?.prompt_tokens, 6, 'each prompt counts once: BOS and two bytes');

  pipeline.onSubmit = (request) => {
    request.token({ token: 120, logprob: -0.25, top: [{ token: 121, logprob: -3 }] });
    request.token({ token: 121, logprob: -0.5, top: [] });
    request.finish();
  };
  const tokens = await openai.completions.create({ model: 'fake-model', prompt: [97, 98], logprobs: 1 });
  t.same(tokens.choices[0].logprobs, {
    tokens: ['x', 'y'],
    token_logprobs: [-0.25, -0.5],
    top_logprobs: [{ y: -3 }, {}],
    text_offset: [0, 1],
  });
  t.same(Array.from(pipeline.requests.at(-1)!.request.promptTokens), [97, 98]);

  const texts: string[] = [];
  for await (const chunk of await openai.completions.create({
    model: 'fake-model',
    prompt: 'ab',
    echo: true,
    stream: true,
  })) {
    t.equal(chunk.object, 'text_completion');
    texts.push(chunk.choices[0].text);
  }
  t.same(texts, ['abx', 'y', '']);
});

t.test('models', async (t) => {
  const { openai } = await startServer(t, {
    modelName: 'owner/name',
    modelRoot: 'hf:owner/name',
    modelAliases: ['alias'],
  });
  const list = await openai.models.list();
  t.match(list.data[0], { id: 'owner/name', object: 'model', root: 'hf:owner/name', max_model_len: 4096 });
  t.match(await openai.models.retrieve('owner/name'), { id: 'owner/name' });
  await t.rejects(openai.models.retrieve('other'), { status: 404, code: 'model_not_found' });
});

t.test('errors arrive as the client knows them', async (t) => {
  const { pipeline, openai } = await startServer(t);
  const create = (extra: object) => openai.chat.completions.create({ model: 'fake-model', messages: HELLO, ...extra });
  await t.rejects(create({ temperature: 3 }), {
    status: 400,
    code: 'invalid_request',
    param: 'temperature',
    type: 'invalid_request_error',
  });
  await t.rejects(create({ model: 'gpt-9' }), { status: 404, code: 'model_not_found', param: 'model' });
  pipeline.refusal = new PlimsollError('queue_full', 'The queue is full.', { retryAfterSeconds: 7 });
  const refused = await create({}).catch((error: unknown) => error);
  t.ok(refused instanceof APIError);
  t.match(refused, { status: 429, code: 'queue_full' });
  t.equal((refused as APIError).headers?.get('retry-after'), '7');
  pipeline.refusal = null;

  pipeline.onSubmit = (request) => {
    request.say('a');
    request.fail(new PlimsollError('internal', 'The engine failed.'));
  };
  const stream = await openai.chat.completions.create({ model: 'fake-model', messages: HELLO, stream: true });
  const read = async () => {
    for await (const chunk of stream) t.equal(chunk.choices[0].delta.content, 'a');
  };
  await t.rejects(read(), { code: 'internal' });
});

t.test('aborting a stream of the client cancels the request', async (t) => {
  const { pipeline, openai } = await startServer(t);
  pipeline.onSubmit = (request) => request.say('a');
  const stream = await openai.chat.completions.create({ model: 'fake-model', messages: HELLO, stream: true });
  for await (const _ of stream) break;
  await pipeline.cancelled();
  t.equal(pipeline.activeCount, 0);
});
