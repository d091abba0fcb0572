import t from 'tap';
import { openVocabulary } from '../../src/shared/native-addon.js';
import { NativeEngine } from '../../src/workers/native-engine.js';
import { requireTestModel } from '../support/test-models.js';

// Model tests wait for the cores that other tests use.
t.setTimeout(180_000);

const engine = new NativeEngine();
t.teardown(() => engine.close());

function load(model: 'smollm2' | 'gemma3-270m' | 'tiny-qwen3') {
  engine.freeModel();
  const path = requireTestModel(model);
  return openVocabulary(engine.loadModel({ path, gpuLayers: 0, devices: [], useMmap: true, useMlock: false }).handle);
}

const TEXTS = [
  '',
  'Hello',
  ' two  spaces ',
  'Zwölf Boxkämpfer',
  '日本語のテキスト',
  '🙂👩‍👩‍👧',
  'a\r\n\tb',
  '\u0000',
  'x'.repeat(5000),
  '{"a":[1,2,{"b":null}]}',
];

for (const model of ['smollm2', 'gemma3-270m', 'tiny-qwen3'] as const) {
  t.test(`${model}: pieces put tokens back together`, async (t) => {
    const vocabulary = load(model);
    t.teardown(() => vocabulary.close());
    const { offsets, bytes } = vocabulary.pieces(false);
    t.equal(offsets.length, vocabulary.size + 1);
    t.equal(offsets.at(-1), bytes.length);
    const text = (tokens: Int32Array) =>
      Buffer.concat(Array.from(tokens, (token) => bytes.subarray(offsets[token], offsets[token + 1]))).toString();
    for (const sample of TEXTS) {
      const tokens = vocabulary.tokenize(sample, false, false);
      t.ok(tokens.every((token) => token >= 0 && token < vocabulary.size));
      t.equal(text(tokens), sample, JSON.stringify(sample.slice(0, 20)));
    }
  });
}

t.test('control tokens are themselves only where that is asked for', async (t) => {
  const vocabulary = load('smollm2');
  t.teardown(() => vocabulary.close());
  const trusted = vocabulary.tokenize('<|im_end|>', false, true);
  t.same([...trusted], [vocabulary.eos]);
  t.ok(vocabulary.tokenize('<|im_end|>', false, false).length > 1);
  const withControl = vocabulary.pieces(true);
  const without = vocabulary.pieces(false);
  const piece = ({ offsets, bytes }: typeof without) =>
    Buffer.from(bytes.subarray(offsets[vocabulary.eos], offsets[vocabulary.eos + 1])).toString();
  t.equal(piece(withControl), '<|im_end|>');
  t.equal(piece(without), '');
  t.ok(vocabulary.isEndOfGeneration(vocabulary.eos));
  for (const token of [-1, 500, vocabulary.size, 2 ** 31, Number.NaN])
    t.notOk(vocabulary.isEndOfGeneration(token), `${token}`);
});

t.test('the begin-of-text token is added where the model wants it', async (t) => {
  const vocabulary = load('gemma3-270m');
  t.teardown(() => vocabulary.close());
  t.ok(vocabulary.addsBos);
  t.equal(vocabulary.tokenize('a', true, false)[0], vocabulary.bos);
  t.not(vocabulary.tokenize('a', false, false)[0], vocabulary.bos);
});

t.test('a chat template makes the prompt that the model was trained on', async (t) => {
  const vocabulary = load('smollm2');
  t.teardown(() => vocabulary.close());
  const apply = (inputs: object) => vocabulary.applyTemplate(JSON.stringify(inputs));
  const user = { role: 'user', content: 'Hi "there"\n' };
  const system = { role: 'system', content: 'Be brief.' };
  const head = '<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi "there"\n<|im_end|>\n';
  t.equal(apply({ messages: [system, user], addGenerationPrompt: true }), `${head}<|im_start|>assistant\n`);
  t.equal(apply({ messages: [system, user], addGenerationPrompt: false }), head);
  const parts = { role: 'user', content: [{ type: 'text', text: 'Hi "there"\n' }] };
  t.equal(apply({ messages: [system, parts], addGenerationPrompt: false }), head);
  const begun = { role: 'assistant', content: 'Once upon' };
  t.equal(
    apply({ messages: [system, user, begun], continueFinalMessage: true }),
    `${head}<|im_start|>assistant\nOnce upon`,
  );
});

t.test('a model without a template gets ChatML', async (t) => {
  const vocabulary = load('gemma3-270m');
  t.teardown(() => vocabulary.close());
  const messages = [{ role: 'user', content: 'Hi' }];
  t.match(vocabulary.applyTemplate(JSON.stringify({ messages })), /<\|im_start\|>user\nHi<\|im_end\|>/);
});

t.test('conversations that cannot be templated are refused, whatever they are', async (t) => {
  const vocabulary = load('smollm2');
  t.teardown(() => vocabulary.close());
  const refused = [
    '',
    '{',
    '[]',
    '{}',
    '{"messages":7}',
    '{"messages":[7]}',
    '{"messages":[{"role":5}]}',
    '{"messages":[{"content":"no role"}]}',
    `{"messages":${'['.repeat(100000)}${']'.repeat(100000)}}`,
    '{"messages":[{"role":"user","content":[{"type":"image_url"}]}]}',
  ];
  for (const inputs of refused) {
    t.throws(
      () => vocabulary.applyTemplate(inputs),
      { name: 'EngineError', code: 'invalid_argument' },
      inputs.slice(0, 60),
    );
  }
});
