import t from 'tap';
import { BATCH_HEADER } from '../../src/shared/batch-wire.js';
import type { ContextSpec, KvLayout } from '../../src/shared/engine.js';
import { SAMPLE_FLAG, STEP_OUT, STEP_STATUS, stepOutputWords } from '../../src/shared/step-output.js';
import { FakeEngine } from '../../src/workers/fake-engine.js';
import { FAKE_CONTROL, FAKE_CONTROL_BYTES, type FakeEngineOptions } from '../../src/workers/fake-options.js';
import { fakeCompletion } from '../../src/workers/fake-tokens.js';
import { FAKE_EOS, FakeVocabulary } from '../../src/workers/fake-vocabulary.js';
import { batchRecord, type RecordPlan, type StepSample, samplesOf } from '../support/batch-record.js';

const MODEL = { path: 'fake', gpuLayers: -1, devices: [], useMmap: true, useMlock: false };
const vocabulary = new FakeVocabulary();
const prompt = vocabulary.tokenize('Once upon a time', true, false);
const other = vocabulary.tokenize('Call me Ishmael', true, false);

function spec(layout: KvLayout, sequences = 8, cells = 256): ContextSpec {
  return {
    layout,
    sequences,
    cells,
    batchTokens: 512,
    ubatchTokens: 128,
    keyType: 'f16',
    valueType: 'f16',
    flashAttention: 'auto',
    threads: 1,
    promptThreads: 1,
  };
}

class Bench {
  readonly engine: FakeEngine;
  readonly output = new Int32Array(stepOutputWords(8));
  private stepId = 0;

  constructor(options: Partial<FakeEngineOptions> = {}, layout: KvLayout = 'shared', cells = 256) {
    this.engine = new FakeEngine(options);
    this.engine.loadModel(MODEL);
    this.engine.createContext(spec(layout, 8, cells));
  }

  step(plan: Omit<RecordPlan, 'stepId'>): StepSample[] {
    this.engine.step(batchRecord({ stepId: ++this.stepId, ...plan }), 0, this.output);
    return samplesOf(this.output);
  }

  get status(): number {
    return this.output[STEP_OUT.status];
  }

  get usedCells(): number {
    return this.output[STEP_OUT.kvUsedTokens];
  }

  /** Runs placeholders of one request until `count` tokens are out, the first of them given. */
  continueTo(count: number, sequence: number, request: number, position: number, first: number): number[] {
    const tokens = [first];
    while (tokens.length < count) {
      const samples = this.step({ segments: [{ sequence, request, position: position + tokens.length - 1 }] });
      tokens.push(samples[0].token);
    }
    return tokens;
  }
}

function generate(bench: Bench, tokens: Int32Array, count: number, chunk: number, sequence = 0, request = 1): number[] {
  let first: StepSample[] = [];
  for (let at = 0; at < tokens.length; at += chunk) {
    const isLast = at + chunk >= tokens.length;
    first = bench.step({
      ...(at === 0 ? { starts: [{ sequence, request }] } : {}),
      segments: [{ sequence, request, position: at, tokens: tokens.subarray(at, at + chunk), sample: isLast }],
    });
  }
  return bench.continueTo(count, sequence, request, tokens.length, first[0].token);
}

for (const layout of ['shared', 'private'] as const) {
  t.test(`${layout}: tokens depend on the tokens before them and on nothing else`, async (t) => {
    const expected = fakeCompletion(prompt, 20);
    for (const chunk of [1, 3, 7, 512])
      t.same(generate(new Bench({}, layout), prompt, 20, chunk), expected, `chunk ${chunk}`);
    t.notSame(fakeCompletion(other, 20), expected);

    const bench = new Bench({}, layout);
    const starts = [
      { sequence: 2, request: 5 },
      { sequence: 6, request: 6 },
    ];
    const samples = bench.step({
      starts,
      segments: [
        { sequence: 2, request: 5, position: 0, tokens: prompt },
        { sequence: 6, request: 6, position: 0, tokens: other },
      ],
    });
    t.same(
      samples.map((s) => s.token),
      [expected[0], fakeCompletion(other, 1)[0]],
      'beside another request',
    );
  });

  t.test(`${layout}: a copied or kept prefix gives the same tokens as a computed one`, async (t) => {
    const bench = new Bench({}, layout);
    const tail = vocabulary.tokenize(' there was', false, false);
    const full = Int32Array.from([...prompt, ...tail]);
    const expected = fakeCompletion(full, 10);
    generate(bench, prompt, 5, 512);
    const copied = bench.step({
      ops: [{ kind: 'copy', sequence: 0, destination: 3, to: prompt.length }],
      starts: [{ sequence: 3, request: 2 }],
      segments: [{ sequence: 3, request: 2, position: prompt.length, tokens: tail }],
    });
    t.same(bench.continueTo(10, 3, 2, full.length, copied[0].token), expected, 'copied');
    const kept = bench.step({
      ops: [
        { kind: 'stop', sequence: 0 },
        { kind: 'remove', sequence: 0, from: prompt.length },
      ],
      starts: [{ sequence: 0, request: 3 }],
      segments: [{ sequence: 0, request: 3, position: prompt.length, tokens: tail }],
    });
    t.same(bench.continueTo(10, 0, 3, full.length, kept[0].token), expected, 'kept');
  });

  t.test(`${layout}: cells are counted and come back`, async (t) => {
    const bench = new Bench({}, layout);
    generate(bench, prompt, 3, 512);
    t.equal(bench.usedCells, prompt.length + 2);
    bench.step({ ops: [{ kind: 'copy', sequence: 0, destination: 1 }] });
    t.equal(bench.usedCells, (prompt.length + 2) * (layout === 'shared' ? 1 : 2), 'shared cells count once');
    bench.step({ ops: [{ kind: 'evict', sequence: 0 }] });
    t.equal(bench.usedCells, prompt.length + 2, 'the copy keeps its cells');
    bench.step({ ops: [{ kind: 'remove', sequence: 1 }] });
    t.equal(bench.usedCells, 0);
  });

  t.test(`${layout}: a saved sequence goes on in a new context`, async (t) => {
    const bench = new Bench({}, layout);
    generate(bench, prompt, 1, 512);
    const state = bench.engine.saveSequence(0);
    bench.engine.createContext(spec(layout, 2));
    t.ok(bench.engine.restoreSequence(1, state));
    const tail = Int32Array.of(65);
    const samples = bench.step({
      epoch: 2,
      starts: [{ sequence: 1, request: 9 }],
      segments: [{ sequence: 1, request: 9, position: prompt.length, tokens: tail }],
    });
    t.equal(samples[0].token, fakeCompletion([...prompt, 65], 1)[0]);
  });
}

t.test('a full context is reported before anything is decoded', async (t) => {
  const shared = new Bench({}, 'shared', 256);
  shared.step({
    starts: [{ sequence: 0, request: 1 }],
    segments: [{ sequence: 0, request: 1, position: 0, tokens: new Int32Array(200) }],
  });
  shared.step({
    starts: [{ sequence: 1, request: 2 }],
    segments: [{ sequence: 1, request: 2, position: 0, tokens: new Int32Array(57) }],
  });
  t.equal(shared.status, STEP_STATUS.noKvSlot);
  t.equal(shared.usedCells, 200);
  shared.step({ segments: [{ sequence: 1, request: 2, position: 0, tokens: new Int32Array(56) }] });
  t.equal(shared.status, STEP_STATUS.ok, 'exactly full is no failure');

  const streams = new Bench({}, 'private', 256);
  const full = { sequence: 0, request: 1, position: 0, tokens: new Int32Array(256) };
  streams.step({ starts: [{ sequence: 0, request: 1 }], segments: [full] });
  t.equal(streams.status, STEP_STATUS.ok);
  streams.step({ segments: [{ sequence: 0, request: 1, position: 256 }] });
  t.equal(streams.status, STEP_STATUS.noKvSlot, 'a stream does not borrow from its neighbours');
});

t.test('a request ends by count, by its end token, and not with ignoreEos', async (t) => {
  const bench = new Bench({ endOfGenerationAfter: 3 });
  const segment = { sequence: 0, request: 1, position: 0, tokens: prompt };
  bench.step({ starts: [{ sequence: 0, request: 1, sampling: { maxTokens: 1 } }], segments: [segment] });
  t.equal(samplesOf(bench.output)[0].flags, SAMPLE_FLAG.maxTokens);
  t.same(bench.step({ segments: [{ sequence: 0, request: 1, position: prompt.length }] }), []);
  t.equal(bench.output[STEP_OUT.droppedCount], 1, 'its placeholder is dropped');

  const again = { ...segment, sequence: 1, request: 2 };
  const first = bench.step({ starts: [{ sequence: 1, request: 2 }], segments: [again] });
  const tokens = bench.continueTo(4, 1, 2, prompt.length, first[0].token);
  t.same(tokens, [...fakeCompletion(prompt, 9, { endOfGenerationAfter: 3 }), FAKE_EOS]);
  t.equal(samplesOf(bench.output)[0].flags, SAMPLE_FLAG.endOfGeneration);

  const free = bench.step({
    starts: [{ sequence: 2, request: 3, sampling: { ignoreEos: true } }],
    segments: [{ ...segment, sequence: 2, request: 3 }],
  });
  t.same(bench.continueTo(8, 2, 3, prompt.length, free[0].token), fakeCompletion(prompt, 8));

  const resumed = bench.step({
    starts: [{ sequence: 3, request: 4, sampledBefore: 3, history: [] }],
    segments: [{ ...segment, sequence: 3, request: 4 }],
  });
  t.equal(resumed[0].token, FAKE_EOS, 'tokens from before a preemption count');
});

t.test('seed, bias and grammar reach the sampler', async (t) => {
  const bench = new Bench();
  const run = (sequence: number, sampling: object) =>
    bench.step({
      starts: [{ sequence, request: sequence + 1, sampling }],
      segments: [{ sequence, request: sequence + 1, position: 0, tokens: prompt }],
    })[0];
  const greedy = run(0, {}).token;
  t.equal(run(1, { temperature: 1, seed: 5 }).token, fakeCompletion(prompt, 1, { temperature: 1, seed: 5 })[0]);
  t.equal(run(2, { logitBias: [[77, 100]] }).token, 77);
  t.not(run(3, { logitBias: [[greedy, -100]] }).token, greedy);
  t.equal(run(4, { grammar: 'root ::= "a"' }).flags, 0);
  t.equal(run(5, { grammar: 'nonsense' }).flags, SAMPLE_FLAG.samplerFailed);
  t.equal(run(6, { logprobs: 3 }).topCount, 3);
});

t.test('a wrong record throws invalid_record', async (t) => {
  const start = [{ sequence: 0, request: 1 }];
  const good = { sequence: 0, request: 1, position: 0, tokens: prompt };
  const wrong: Array<[string, Array<Omit<RecordPlan, 'stepId'>>]> = [
    ['a sequence out of range', [{ starts: [{ sequence: 8, request: 1 }] }]],
    ['a token out of range', [{ starts: start, segments: [{ ...good, tokens: [100_000] }] }]],
    ['a position that skips', [{ starts: start, segments: [{ ...good, position: 1 }] }]],
    ['a position that repeats', [{ starts: start, segments: [good] }, { segments: [{ ...good, sample: false }] }]],
    ['a sample without a start', [{ segments: [good] }]],
    ['a placeholder before any token', [{ starts: start, segments: [{ sequence: 0, request: 1, position: 0 }] }]],
    [
      'a placeholder of another request',
      [{ starts: start, segments: [good] }, { segments: [{ sequence: 0, request: 2, position: 17 }] }],
    ],
    ['a start on a running sequence', [{ starts: start, segments: [good] }, { starts: [{ sequence: 0, request: 2 }] }]],
    [
      'two segments of one sequence',
      [
        {
          starts: start,
          segments: [
            { ...good, sample: false },
            { ...good, position: 17 },
          ],
        },
      ],
    ],
    [
      'a hole',
      [{ starts: start, segments: [good], ops: [] }, { ops: [{ kind: 'remove', sequence: 0, from: 1, to: 3 }] }],
    ],
    [
      'a copy onto a used sequence',
      [{ starts: start, segments: [good] }, { ops: [{ kind: 'copy', sequence: 1, destination: 0 }] }],
    ],
    ['a copy of more than there is', [{ ops: [{ kind: 'copy', sequence: 1, destination: 0, to: 5 }] }]],
    ['too many tokens', [{ starts: start, segments: [{ ...good, tokens: new Int32Array(513) }] }]],
    [
      'too much history',
      [{ starts: [{ sequence: 0, request: 1, history: [1, 2], sampling: { penaltyLastTokens: 1 } }] }],
    ],
    ['an epoch that jumps', [{ epoch: 1 }, { epoch: 2 }]],
  ];
  for (const [name, plans] of wrong) {
    const bench = new Bench();
    for (const plan of plans.slice(0, -1)) bench.step(plan);
    t.throws(() => bench.step(plans.at(-1)!), { code: 'invalid_record' }, name);
  }
  const { engine, output } = new Bench();
  const record = batchRecord({ stepId: 1 });
  record[BATCH_HEADER.totalWords]++;
  t.throws(() => engine.step(record, 0, output), { code: 'invalid_record' }, 'a wrong total');
  engine.step(batchRecord({ stepId: 5 }), 0, output);
  t.throws(() => engine.step(batchRecord({ stepId: 5 }), 0, output), { code: 'invalid_record' }, 'a step twice');
});

t.test('a record of an earlier context changes nothing', async (t) => {
  const bench = new Bench();
  bench.step({ epoch: 4 });
  bench.engine.createContext(spec('shared'));
  bench.step({
    epoch: 4,
    starts: [{ sequence: 0, request: 1 }],
    segments: [{ sequence: 0, request: 1, position: 0, tokens: prompt }],
  });
  t.equal(bench.status, STEP_STATUS.invalidRecord);
  t.equal(bench.usedCells, 0);
  bench.step({ epoch: 5 });
  t.equal(bench.status, STEP_STATUS.ok);
});

t.test('a model that cannot trim refuses to', async (t) => {
  const bench = new Bench({ canTrim: false });
  generate(bench, prompt, 1, 512);
  t.throws(() => bench.step({ ops: [{ kind: 'remove', sequence: 0, from: 3 }] }), { code: 'invalid_record' });
  bench.step({ ops: [{ kind: 'remove', sequence: 0 }] });
  t.equal(bench.usedCells, 0, 'a whole sequence goes');
});

t.test('scripted failures', async (t) => {
  const bench = new Bench({
    failAtStep: [
      { step: 2, status: STEP_STATUS.noKvSlot, engineCode: 1 },
      { step: 3, status: STEP_STATUS.failed, engineCode: -3 },
    ],
  });
  generate(bench, prompt, 1, 512);
  const next = { segments: [{ sequence: 0, request: 1, position: prompt.length }] };
  bench.step(next);
  t.equal(bench.status, STEP_STATUS.noKvSlot);
  t.equal(bench.usedCells, prompt.length);
  bench.step(next);
  t.equal(bench.status, STEP_STATUS.failed);
  t.equal(bench.output[STEP_OUT.engineCode], -3);
  t.throws(() => bench.step(next), { code: 'wrong_state' }, 'until the context is made anew');
  bench.engine.createContext(spec('shared'));
  bench.step({ epoch: 2 });
  t.equal(bench.status, STEP_STATUS.ok);

  const crashing = new Bench({ crashAtStep: { step: 1, kind: 'throw' } });
  t.throws(() => crashing.step({}), /told to crash/);
  const full = new FakeEngine({ contextLimitBytes: 1 });
  full.loadModel(MODEL);
  t.throws(() => full.createContext(spec('shared')), { code: 'out_of_memory' });
  const second = new FakeEngine({ failCreateContext: [2] });
  second.loadModel(MODEL);
  second.createContext(spec('shared'));
  t.throws(() => second.createContext(spec('shared')), { code: 'out_of_memory' });
  t.throws(() => new FakeEngine({ loadError: 'model_invalid' }).loadModel(MODEL), { code: 'model_invalid' });
  t.throws(() => new FakeEngine().loadModel(MODEL, (fraction) => fraction < 0.5), { code: 'cancelled' });
});

t.test('the abort flag ends a held step and keeps what was processed', async (t) => {
  const control = new SharedArrayBuffer(FAKE_CONTROL_BYTES);
  const bench = new Bench({ control, abortKeepsSegments: 1 });
  const words = new Int32Array(control);
  const flag = new Int32Array(new SharedArrayBuffer(4));
  bench.engine.setAbortFlag(flag, 0);
  words[FAKE_CONTROL.hold] = 1;
  flag[0] = 1;
  const samples = bench.step({
    starts: [
      { sequence: 0, request: 1 },
      { sequence: 1, request: 2 },
    ],
    segments: [
      { sequence: 0, request: 1, position: 0, tokens: prompt },
      { sequence: 1, request: 2, position: 0, tokens: other },
    ],
  });
  t.same([bench.status, samples.length, bench.usedCells], [STEP_STATUS.aborted, 0, prompt.length]);
  t.same([words[FAKE_CONTROL.entered], words[FAKE_CONTROL.completed]], [1, 1]);
});

t.test('readings: computed, scripted, steered', async (t) => {
  const control = new SharedArrayBuffer(FAKE_CONTROL_BYTES);
  const { engine } = new Bench({ control, readings: [{ systemAvailableBytes: 7 }, { systemAvailableBytes: 8 }] });
  const [device] = engine.measure(spec('shared'));
  t.equal(engine.readings().processFootprintBytes, device.modelBytes + device.contextBytes + device.computeBytes);
  t.equal(engine.readings().systemAvailableBytes, 8);
  t.equal(engine.readings().systemAvailableBytes, 8, 'the last entry stays');
  new Int32Array(control)[FAKE_CONTROL.systemAvailableMib] = 3;
  t.equal(engine.readings().systemAvailableBytes, 3 * 2 ** 20);
});

t.test('vocabulary: text survives tokens, characters may be split over two', async (t) => {
  const text = 'Grüße, 日本語 🙂 é\n';
  const { offsets, bytes } = vocabulary.pieces(false);
  const tokens = vocabulary.tokenize(text, true, true);
  const parts = [...tokens].flatMap((token) => [...bytes.subarray(offsets[token], offsets[token + 1])]);
  t.equal(new TextDecoder().decode(Uint8Array.from(parts)), text);
  t.same([...vocabulary.tokenize('<|eos|>', false, true)], [FAKE_EOS]);
  t.equal(vocabulary.tokenize('<|eos|>', false, false).length, 7, 'untrusted text has no control tokens');
  t.equal(offsets.length, vocabulary.size + 1);
  const inputs = { messages: [{ role: 'user', content: 'hi' }] };
  t.equal(vocabulary.applyTemplate(JSON.stringify(inputs)), '<|user|>hi<|end|><|assistant|>');
});
