import { readFileSync } from 'node:fs';
import t from 'tap';
import type { MemoryBreakdown } from '../../src/shared/engine.js';
import { EngineUnderTest, SMALL_CONTEXT } from './engine-under-test.js';

const MIB = 2 ** 20;
const CELLS = 1024;

/** Memory of this process that is no file's, bytes. */
function ownBytes(): number {
  const line = /RssAnon:\s+(\d+) kB/.exec(readFileSync('/proc/self/status', 'utf8'));
  return Number(line?.[1]) * 1024;
}

function contextBytes({ device, contextBytes, computeBytes }: MemoryBreakdown) {
  return { device, contextBytes, computeBytes };
}

const skip = process.platform === 'linux' ? false : 'resident memory is read from /proc';

// 128 kB of KV a token: a few hundred tokens make states that stand out of whatever else the process does.
const fat = new EngineUnderTest('fat-kv');
t.teardown(() => fat.close());

t.test('a released state is empty, and its memory is the system’s again at once', { skip }, async (t) => {
  fat.createContext({ cells: CELLS });
  const prompt = Array.from({ length: 240 }, (_, i) => 1000 + i);
  fat.step({ segments: [{ sequence: 0, request: 1, position: 0, tokens: prompt, sample: false }] });
  const state = fat.engine.saveSequence(0);
  const bytes = state.length;
  t.ok(bytes > 25 * MIB, `${bytes} bytes of state`);
  const before = ownBytes();
  fat.engine.releaseState(state);
  t.equal(state.length, 0);
  t.ok(before - ownBytes() > bytes * 0.9, `${before - ownBytes()} of ${bytes} bytes came back`);
  t.doesNotThrow(() => fat.engine.releaseState(state), 'a second time does nothing');
  t.throws(() => fat.engine.releaseState({} as Uint8Array), { code: 'invalid_argument' });
});

t.test('measurements leave little behind: a vocabulary is not loaded for them', { skip }, async (t) => {
  fat.engine.freeContext();
  const before = ownBytes();
  for (const cells of [256, 2048, 16384]) fat.engine.measure({ ...SMALL_CONTEXT, cells });
  const leftBytes = ownBytes() - before;
  t.ok(leftBytes < 20 * MIB, `${leftBytes} bytes`);
});

t.test('measured bytes are those that the context then has', async (t) => {
  for (const spec of [SMALL_CONTEXT, { ...SMALL_CONTEXT, sequences: 3, cells: 2048, ubatchTokens: 256 }]) {
    const [measured, taken] = [fat.engine.measure(spec), fat.engine.createContext(spec).breakdown];
    t.same(measured.map(contextBytes), taken.map(contextBytes));
  }
});

t.test('a model with one length of heads may have a quantized cache', async (t) => {
  const sum = (keyType: 'f16' | 'q8_0') =>
    fat.engine.measure({ ...SMALL_CONTEXT, keyType }).reduce((total, part) => total + part.contextBytes, 0);
  t.ok(sum('q8_0') < sum('f16') * 0.8);
});
