import { closeSync, mkdtempSync, openSync, readFileSync, readSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { EngineError, type EngineErrorCode } from '../../src/shared/engine.js';
import { openVocabulary } from '../../src/shared/native-addon.js';
import { NativeEngine } from '../../src/workers/native-engine.js';
import { requireTestModel, type TestModelName } from '../support/test-models.js';

// Model tests wait for the cores that other tests use.
t.setTimeout(180_000);

const folder = mkdtempSync(join(tmpdir(), 'plimsoll-load-'));
t.teardown(() => rmSync(folder, { recursive: true }));

const engine = new NativeEngine();
t.teardown(() => engine.close());

function load(path: string, onProgress?: (fraction: number) => boolean) {
  return engine.loadModel({ path, gpuLayers: 0, devices: [], useMmap: true, useMlock: false }, onProgress);
}

function refuses(t: Test, path: string, code: EngineErrorCode, message: RegExp): void {
  let thrown: unknown;
  try {
    load(path);
  } catch (error) {
    thrown = error;
  }
  t.ok(thrown instanceof EngineError, 'an EngineError');
  t.equal((thrown as EngineError).code, code);
  t.match((thrown as EngineError).message, message);
  t.notMatch((thrown as EngineError).message, /\n/, 'one line');
}

/** The first `bytes` of a model, with its architecture's name replaced by one of the same length. */
function copyOf(model: TestModelName, bytes: number, rename?: [string, string]): string {
  const path = join(folder, `${model}-${bytes}-${rename?.[1] ?? 'same'}.gguf`);
  const file = openSync(requireTestModel(model), 'r');
  const buffer = Buffer.alloc(bytes);
  readSync(file, buffer, 0, bytes, 0);
  closeSync(file);
  if (rename) {
    for (let at = buffer.indexOf(rename[0]); at >= 0; at = buffer.indexOf(rename[0], at)) buffer.write(rename[1], at);
  }
  writeFileSync(path, buffer);
  return path;
}

t.test('what is not a model is refused with its reason', async (t) => {
  refuses(t, join(folder, 'nowhere.gguf'), 'model_not_found', /no model file at .*nowhere\.gguf/);
  refuses(t, folder, 'model_not_found', /not a file/);
  const text = join(folder, 'text.gguf');
  writeFileSync(text, 'This is a text, however it is called.');
  refuses(t, text, 'model_invalid', /not a GGUF file/);
  const empty = join(folder, 'empty.gguf');
  writeFileSync(empty, '');
  refuses(t, empty, 'model_invalid', /not a GGUF file/);
  const magic = join(folder, 'magic.gguf');
  writeFileSync(magic, 'GGUF');
  refuses(t, magic, 'model_invalid', /magic\.gguf/);
});

t.test('a file cut short is incomplete, wherever it was cut', async (t) => {
  const whole = readFileSync(requireTestModel('tiny-mamba')).length;
  refuses(t, copyOf('tiny-mamba', 1000), 'model_invalid', /cannot be loaded|incomplete/);
  refuses(t, copyOf('tiny-mamba', Math.floor(whole / 2)), 'model_invalid', /incomplete/);
  refuses(t, copyOf('tiny-mamba', whole - 100), 'model_invalid', /incomplete/);
});

t.test('an architecture that the engine does not know is unsupported', async (t) => {
  const size = readFileSync(requireTestModel('tiny-mamba')).length;
  refuses(
    t,
    copyOf('tiny-mamba', size, ['mamba', 'viper']),
    'model_unsupported',
    /unknown model architecture: 'viper'/,
  );
});

t.test('an unknown device is refused with those there are', async (t) => {
  const options = {
    path: requireTestModel('tiny-mamba'),
    gpuLayers: 0,
    devices: ['Abacus'],
    useMmap: true,
    useMlock: false,
  };
  t.throws(() => engine.loadModel(options), { code: 'invalid_argument', message: /Abacus.*CPU/ });
});

t.test('progress rises to 1, and false cancels', async (t) => {
  const path = requireTestModel('smollm2');
  t.throws(() => load(path, () => false), { code: 'cancelled' });
  const seen: number[] = [];
  load(path, (fraction) => seen.push(fraction) > 0);
  t.equal(seen.at(-1), 1);
  t.same(
    seen,
    [...seen].sort((a, b) => a - b),
  );
  engine.freeModel();
});

t.test('an exception in the progress callback comes out as itself', async (t) => {
  const own = new RangeError('from the callback');
  t.throws(
    () =>
      load(requireTestModel('smollm2'), () => {
        throw own;
      }),
    own,
  );
});

t.test('a second model needs the first to be freed', async (t) => {
  load(requireTestModel('tiny-mamba'));
  t.throws(() => load(requireTestModel('tiny-mamba')), { code: 'wrong_state' });
  engine.freeModel();
  t.throws(() => engine.measure({} as never), { code: /invalid_argument|wrong_state/ });
});

t.test('what models are is told, unlike models too', async (t) => {
  const facts: [TestModelName, Record<string, unknown>][] = [
    [
      'smollm2',
      {
        architecture: 'llama',
        vocabularySize: 49152,
        layerCount: 30,
        embeddingLength: 576,
        queryHeadCount: 9,
        kvHeadCount: 3,
        trainContextTokens: 8192,
        slidingWindowTokens: 0,
        isRecurrent: false,
        isHybrid: false,
        canTrim: true,
        hasDecoder: true,
      },
    ],
    [
      'gemma3-270m',
      { architecture: 'gemma3', vocabularySize: 262144, slidingWindowTokens: 512, canTrim: false, chatTemplate: null },
    ],
    ['tiny-mamba', { isRecurrent: true, isHybrid: false, canTrim: false }],
    ['tiny-hybrid', { isRecurrent: false, isHybrid: true, canTrim: false }],
    ['tiny-moe', { isRecurrent: false, isHybrid: false, canTrim: true }],
  ];
  for (const [name, expected] of facts) {
    const info = load(requireTestModel(name));
    t.match(info, expected, name);
    t.equal(info.metadata['general.architecture'], info.architecture);
    t.ok(info.sizeBytes > 0 && info.parameterCount > 0);
    engine.freeModel();
  }
});

t.test('a vocabulary keeps its model until it is closed', async (t) => {
  const { handle } = load(requireTestModel('tiny-qwen3'));
  const vocabulary = openVocabulary(handle);
  engine.freeModel();
  t.ok(vocabulary.tokenize('still here', false, false).length > 0);
  t.equal(openVocabulary(handle).size, vocabulary.size);
  vocabulary.close();
  t.throws(() => vocabulary.tokenize('gone', false, false), { code: 'wrong_state' });
  t.throws(() => openVocabulary(123456), { code: 'wrong_state' });
});

t.test('the engine logs into the queue, and says when lines were lost', async (t) => {
  const { lines, dropped } = engine.drainLogs();
  t.ok(lines.some(({ text }) => /llama_model_loader/.test(text)));
  t.ok(dropped >= 0 && lines.every(({ level }) => level >= 2));
  t.same(engine.drainLogs(), { lines: [], dropped: 0 });
});
