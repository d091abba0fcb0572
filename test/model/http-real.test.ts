/** The served API with a real model behind it, through the client that most programs use. */
import OpenAI from 'openai';
import t from 'tap';
import { ServedProcess } from '../support/served-process.js';
import { requireTestModel } from '../support/test-models.js';

t.setTimeout(300_000);

const CONTEXT_TOKENS = 1024;
const RUNNING = 4;
/** How soon a slot must be free again. Chosen: hundreds of steps, on a machine that is busy with other things. */
const FREE_WITHIN_MS = 10_000;

const served = new ServedProcess(
  [
    ...['--model', requireTestModel('smollm2-q4_0'), '--served-model-name', 'smol', '--port', '0', '--threads', '1'],
    ...['--context-length', String(CONTEXT_TOKENS), '--max-running-requests', String(RUNNING)],
  ],
  { PLIMSOLL_CACHE_DIR: t.testdir({}) },
);
t.teardown(async () => {
  process.kill(served.pid, 'SIGTERM');
  await served.allGone;
});
const { address } = await served.line(/^ready on/);
const openai = new OpenAI({ baseURL: `${address}/v1`, apiKey: 'none', maxRetries: 0 });

const question = [{ role: 'user' as const, content: 'What is the capital of France?' }];

async function gauges(): Promise<{ scheduler: Record<string, number>; device: Record<string, number> }> {
  return (await fetch(`${address}/v1/load-line`)).json() as ReturnType<typeof gauges>;
}

t.test('the model is listed', async (t) => {
  const { data } = await openai.models.list();
  t.match(data, [{ id: 'smol', object: 'model', max_model_len: CONTEXT_TOKENS, meta: { n_vocab: 49152 } }]);
});

t.test('a chat reply, whole and streamed, is the same text at temperature 0', async (t) => {
  // A prompt out of the cache is computed in another batch, which may round otherwise.
  const body = { model: 'smol', messages: question, temperature: 0, max_tokens: 24, cache_prompt: false };
  const whole = await openai.chat.completions.create(body);
  const [choice] = whole.choices;
  t.match(choice.message.content, /Paris/);
  let streamed = '';
  let finish: unknown = null;
  let usage: unknown = null;
  const stream = await openai.chat.completions.create({
    ...body,
    stream: true,
    stream_options: { include_usage: true },
  });
  for await (const chunk of stream) {
    streamed += chunk.choices[0]?.delta.content ?? '';
    finish = chunk.choices[0]?.finish_reason ?? finish;
    usage = chunk.usage ?? usage;
  }
  t.equal(streamed, choice.message.content);
  t.equal(finish, choice.finish_reason);
  t.match(usage, {
    prompt_tokens: whole.usage?.prompt_tokens,
    completion_tokens: whole.usage?.completion_tokens,
    total_tokens: whole.usage?.total_tokens,
  });
});

t.test('a second turn takes the first from the cache', async (t) => {
  const first = await openai.chat.completions.create({
    model: 'smol',
    messages: question,
    temperature: 0,
    max_tokens: 16,
  });
  const messages = [
    ...question,
    { role: 'assistant' as const, content: first.choices[0].message.content },
    { role: 'user' as const, content: 'And of Italy?' },
  ];
  const second = await openai.chat.completions.create({ model: 'smol', messages, temperature: 0, max_tokens: 4 });
  const cached = second.usage?.prompt_tokens_details?.cached_tokens ?? 0;
  t.ok(cached >= (first.usage?.prompt_tokens ?? Number.POSITIVE_INFINITY), `${cached} tokens were cached`);
});

t.test('two choices of one request are drawn apart, and a seed brings both back', async (t) => {
  const body = {
    model: 'smol',
    messages: question,
    temperature: 1.5,
    max_tokens: 12,
    n: 2,
    seed: 7,
    cache_prompt: false,
  };
  const reply = await openai.chat.completions.create(body);
  const texts = reply.choices.map(({ message }) => message.content);
  t.equal(texts.length, 2);
  t.not(texts[0], texts[1]);
  const again = await openai.chat.completions.create({ ...body, seed: 8 });
  t.notSame(
    again.choices.map(({ message }) => message.content),
    texts,
    'another seed draws others',
  );
});

t.test('three times as many requests as run at once', async (t) => {
  const replies = await Promise.all(
    Array.from({ length: 3 * RUNNING }, (_, i) =>
      openai.completions.create({
        model: 'smol',
        prompt: `Item ${i}:`,
        max_tokens: 4 + i,
        temperature: 0,
        logit_bias: { '0': -100, '2': -100 },
      }),
    ),
  );
  t.same(
    replies.map(({ usage, choices }) => [usage?.completion_tokens, choices[0].finish_reason]),
    replies.map((_, i) => [4 + i, 'length']),
  );
  const { scheduler } = await gauges();
  t.match(scheduler, { runningCap: RUNNING, waitingRequests: 0 });
});

t.test('a client that goes away frees its slot within a moment', async (t) => {
  const before = (await gauges()).device.decodedTokens;
  const maxTokens = CONTEXT_TOKENS - 100;
  const stream = await openai.completions.create({
    model: 'smol',
    prompt: 'Once upon a time',
    max_tokens: maxTokens,
    stream: true,
    ...{ ignore_eos: true },
  });
  let chunks = 0;
  for await (const _ of stream) if (++chunks === 3) break;
  const deadline = performance.now() + FREE_WITHIN_MS;
  let now = await gauges();
  while (now.scheduler.runningRequests > 0 && performance.now() < deadline) now = await gauges();
  t.equal(now.scheduler.runningRequests, 0);
  const decoded = now.device.decodedTokens - before;
  t.ok(decoded < maxTokens / 2, `${decoded} tokens of ${maxTokens} were computed`);
});

t.test('more than the context holds is refused with both numbers', async (t) => {
  const long = openai.chat.completions.create({ model: 'smol', messages: question, max_tokens: 5000 });
  await t.rejects(long, { status: 400, code: 'context_length_exceeded', message: /1024 tokens.*5000/ });
  const prompt = openai.completions.create({ model: 'smol', prompt: 'ship '.repeat(2000) });
  await t.rejects(prompt, { status: 400, code: 'context_length_exceeded', message: /maximum context length is 1024/ });
});
