import t from 'tap';
import type { ContextSpec, MemoryBreakdown } from '../../src/shared/engine.js';
import { EngineUnderTest, SMALL_CONTEXT, tokensFrom } from './engine-under-test.js';

// Model tests wait for the cores that other tests use.
t.setTimeout(180_000);

const under = new EngineUnderTest('tiny-qwen3');
t.teardown(() => under.close());

t.test('every spec that would end the process, or mean nothing, is refused before the engine sees it', async (t) => {
  const refused: [Partial<Record<keyof ContextSpec, unknown>>, RegExp][] = [
    [{ layout: 'heap' }, /layout/],
    [{ sequences: 0 }, /sequences/],
    [{ sequences: 257 }, /sequences/],
    [{ sequences: 1.5 }, /sequences/],
    [{ cells: 0 }, /cells/],
    [{ cells: 2 ** 31 }, /cells/],
    [{ layout: 'private', sequences: 256, cells: 2 ** 20 }, /cells times/],
    [{ batchTokens: 0 }, /batchTokens/],
    [{ ubatchTokens: -1 }, /ubatchTokens/],
    [{ batchTokens: 32, ubatchTokens: 64 }, /batchTokens must be at least/],
    [{ keyType: 'q9_9' }, /keyType/],
    [{ valueType: 3 }, /valueType/],
    [{ flashAttention: 'maybe' }, /flashAttention/],
    [{ valueType: 'q8_0', flashAttention: 'off' }, /flash attention/],
    [{ threads: 0 }, /threads/],
    [{ promptThreads: 1000 }, /promptThreads/],
    [{ threads: Number.NaN }, /threads/],
  ];
  for (const [changes, message] of refused) {
    const spec = { ...SMALL_CONTEXT, ...changes } as ContextSpec;
    t.throws(() => under.engine.createContext(spec), { code: 'invalid_argument', message }, JSON.stringify(changes));
    t.throws(() => under.engine.measure(spec), { code: 'invalid_argument', message });
  }
});

t.test('a context that this host can never hold is out of memory, and the process lives', async (t) => {
  const fat = new EngineUnderTest('fat-kv');
  t.teardown(() => fat.close());
  t.throws(() => fat.createContext({ cells: 1 << 20 }), { code: 'out_of_memory', message: /bytes/ });
  fat.createContext();
  t.equal(fat.generate(tokensFrom(1, 5), 3).length, 3);
});

t.test('odd but possible specs work: more sequences than batch tokens, tiny ubatches, one cell', async (t) => {
  const specs: Partial<ContextSpec>[] = [
    { sequences: 64, batchTokens: 8, ubatchTokens: 8 },
    { sequences: 64, batchTokens: 8, ubatchTokens: 8, layout: 'private', cells: 1 },
    { sequences: 1, cells: 1, batchTokens: 1, ubatchTokens: 1 },
    { layout: 'private', cells: 300, sequences: 3 },
    { keyType: 'q8_0', valueType: 'q8_0' },
    { keyType: 'q4_0', valueType: 'q4_0', flashAttention: 'on' },
    { keyType: 'q8_0', flashAttention: 'off' },
    { keyType: 'f32', valueType: 'f32' },
    { keyType: 'bf16', valueType: 'bf16' },
  ];
  for (const changes of specs) {
    under.createContext(changes);
    const tokens = under.generate(tokensFrom(2, Math.min(5, changes.batchTokens ?? 5)), 3);
    t.equal(tokens.length, 3, JSON.stringify(changes));
  }
});

t.test('cells are told as the engine rounded them, and what was measured is what is taken', async (t) => {
  for (const layout of ['shared', 'private'] as const) {
    const spec = { ...SMALL_CONTEXT, layout, cells: 300, sequences: 3 };
    const measured = under.engine.measure(spec);
    const info = under.engine.createContext(spec);
    t.equal(info.cells, 512);
    const context = ({ device, contextBytes, computeBytes }: MemoryBreakdown) => ({
      device,
      contextBytes,
      computeBytes,
    });
    t.same(info.breakdown.map(context), measured.map(context), 'to the byte');
    const [host] = measured;
    t.match(host, { device: 'CPU', isHost: true });
    t.ok(host.modelBytes > 0 && host.contextBytes > 0 && host.computeBytes > 0);
  }
});

t.test('without a context nothing that needs one is done', async (t) => {
  under.engine.freeContext();
  const wrongState = { code: 'wrong_state' };
  t.throws(() => under.step({}), wrongState);
  t.throws(() => under.engine.saveSequence(0), wrongState);
  t.throws(() => under.engine.restoreSequence(0, new Uint8Array(8)), wrongState);
});

t.test('models that do not generate are refused', async (t) => {
  const minilm = new EngineUnderTest('minilm');
  t.teardown(() => minilm.close());
  t.throws(() => minilm.createContext(), { code: 'model_unsupported', message: /bert/ });
});
