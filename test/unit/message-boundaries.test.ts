/** Where other prompts branch off a conversation, by renderings of the model's template. */
import t from 'tap';
import { EngineError, type Vocabulary } from '../../src/shared/engine.js';
import { FakeVocabulary } from '../../src/workers/fake-vocabulary.js';
import { messageBoundaries } from '../../src/workers/message-boundaries.js';
import { runPrepareJob } from '../../src/workers/prepare-job.js';

const vocabulary = new FakeVocabulary();
const system = { role: 'system', content: 'Be brief.' };
const user = (content: string) => ({ role: 'user', content });
const assistant = (content: string) => ({ role: 'assistant', content });

/** The prompt up to each of its boundaries. */
function texts(messages: unknown[], by: Vocabulary = vocabulary): string[] {
  const inputsJson = JSON.stringify({ messages, addGenerationPrompt: true });
  const tokens = by.tokenize(by.applyTemplate(inputsJson), true, true);
  const { offsets, bytes } = vocabulary.pieces(true);
  return messageBoundaries(by, inputsJson, tokens).map((count) =>
    Array.from(tokens.subarray(1, count), (token) =>
      Buffer.from(bytes.subarray(offsets[token], offsets[token + 1])).toString(),
    ).join(''),
  );
}

t.test('behind the system prompt, and behind the last message', async (t) => {
  const opening = '<|system|>Be brief.<|end|><|user|>';
  const [first, last, ...near] = texts([system, user('Hi')]);
  t.same([first, last], [opening, `${opening}Hi<|end|>`]);
  t.same(near, [`${last}<|assistant|>`], 'and a little more for a next turn');
  const chat = [system, user('Hi'), assistant('Ho'), user('x or y?')];
  t.equal(texts(chat)[1], `${opening}Hi<|end|><|assistant|>Ho<|end|><|user|>x or y?<|end|>`);
});

t.test('words that begin like those of the other rendering are told apart', async (t) => {
  for (const content of ['x', 'xy', 'y', '', ' x'])
    t.ok(texts([system, user(content)])[0].startsWith('<|system|>Be brief.<|end|><|user|>'), content);
  t.equal(texts([system, user('x')])[0], '<|system|>Be brief.<|end|><|user|>');
});

t.test('a system prompt inside the first message counts as far as it is common', async (t) => {
  const merged: Vocabulary = Object.assign(Object.create(vocabulary), {
    applyTemplate(json: string) {
      const [first, ...rest] = JSON.parse(json).messages as { role: string; content: string }[];
      if (first.role !== 'system') return vocabulary.applyTemplate(json);
      const messages = [{ role: 'user', content: `${first.content}\n\n${rest[0].content}` }, ...rest.slice(1)];
      return vocabulary.applyTemplate(JSON.stringify({ ...JSON.parse(json), messages }));
    },
  });
  t.equal(texts([system, user('Hi')], merged)[0], '<|user|>Be brief.\n\n');
});

t.test('an opening of the answer that the next turn does not have is not counted, asked for or not', async (t) => {
  const open: Vocabulary = Object.assign(Object.create(vocabulary), {
    applyTemplate(json: string) {
      const text = vocabulary.applyTemplate(json).replace(/<\|assistant\|>$/, '');
      return JSON.parse(json).messages.at(-1).role === 'user' ? `${text}<|assistant|>(thinks)` : text;
    },
  });
  const [opening, turn, whole] = texts([system, user('Hi')], open);
  t.equal(turn, `${opening}Hi<|end|><|assistant|>`);
  t.equal(whole, `${turn}(thinks)`, 'where nothing better is known');
});

t.test('a template that refuses a rendering costs its boundary and no more', async (t) => {
  let calls = 0;
  const strict: Vocabulary = Object.assign(Object.create(vocabulary), {
    applyTemplate(json: string) {
      if (++calls === 2) throw new EngineError('invalid_argument', 'roles must alternate');
      return vocabulary.applyTemplate(json);
    },
  });
  t.equal(texts([system, user('Hi')], strict)[0], '<|system|>Be brief.<|end|><|user|>Hi<|end|>');
});

t.test('a prepare job tells them to who asks, counted as its tokens are', async (t) => {
  const inputsJson = JSON.stringify({ messages: [system, user('Hi')] });
  const plain = runPrepareJob(vocabulary, { kind: 'chat', inputsJson });
  const asked = runPrepareJob(vocabulary, { kind: 'chat', inputsJson, findsBoundaries: true });
  t.ok(plain.ok && plain.boundaries === undefined);
  t.ok(asked.ok && asked.boundaries?.length === 3);
  // A template that writes the begin-of-text token which the tokenizer adds as well: one is taken away, and all counts shift by one.
  const doubled: Vocabulary = Object.assign(Object.create(vocabulary), {
    applyTemplate: (json: string) => `<|bos|>${vocabulary.applyTemplate(json)}`,
  });
  t.same(runPrepareJob(doubled, { kind: 'chat', inputsJson, findsBoundaries: true }), asked);
});
