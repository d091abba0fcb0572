import t from 'tap';
import { startServer } from './test-server.js';

t.test('each choice of a conversation is submitted with the ends of its messages', async (t) => {
  const { pipeline, post } = await startServer(t);
  pipeline.onSubmit = (request) => request.finish();
  const messages = [
    { role: 'system', content: 'Be brief.' },
    { role: 'user', content: 'Hi' },
  ];
  t.equal((await post('/v1/chat/completions', { messages, n: 2 })).status, 200);
  // <|bos|><|system|>Be brief.<|end|><|user|>, Hi<|end|>, <|assistant|>.
  for (const { request } of pipeline.requests) t.same(request.boundaries, [13, 16, 17]);
  t.equal(pipeline.requests.length, 2);
});

t.test('a prompt of text has none', async (t) => {
  const { pipeline, post } = await startServer(t);
  pipeline.onSubmit = (request) => request.finish();
  t.equal((await post('/v1/completions', { prompt: 'Hi' })).status, 200);
  t.same(pipeline.requests[0].request.boundaries, []);
});
