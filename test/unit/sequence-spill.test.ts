import { readdirSync } from 'node:fs';
import t from 'tap';
import type { ContextSpec } from '../../src/shared/engine.js';
import { type SpillInput, spillBudget } from '../../src/shared/memory/spill-budget.js';
import { ContextKeeper, type KeptSequences } from '../../src/workers/context-keeper.js';
import { FakeEngine } from '../../src/workers/fake-engine.js';
import type { FakeEngineOptions } from '../../src/workers/fake-options.js';
import { SequenceSpill } from '../../src/workers/sequence-spill.js';
import { batchRecord } from '../support/batch-record.js';
import { inPlace } from '../support/in-place.js';

const LOWER: ContextSpec = {
  layout: 'shared',
  sequences: 4,
  cells: 256,
  batchTokens: 512,
  ubatchTokens: 512,
  keyType: 'f16',
  valueType: 'f16',
  flashAttention: 'auto',
  threads: 1,
  promptThreads: 1,
};
const LADDER = [LOWER, { ...LOWER, cells: 512 }];
const TOKENS = [60, 50, 40];

/** A keeper on the upper rung, with three sequences in it, and what it warns of. */
function standing(folder: string | null, options: Partial<FakeEngineOptions> = {}) {
  const engine = new FakeEngine(options);
  engine.loadModel({ path: 'any', gpuLayers: 0, devices: [], useMmap: true, useMlock: false });
  engine.createContext(LADDER[1]);
  const segments = TOKENS.map((count, sequence) => ({
    sequence,
    request: sequence + 1,
    position: 0,
    tokens: Array.from({ length: count }, (_, i) => 40 + sequence + (i % 50)),
    sample: false,
  }));
  const record = batchRecord({ stepId: 1, segments });
  engine.step(record, 0, new Int32Array(256));
  const warnings: string[] = [];
  const warn = (message: string) => warnings.push(message);
  const spill = new SequenceSpill(engine, folder, warn);
  return { engine, spill, warnings, keeper: new ContextKeeper(engine, LADDER, 1, spill, warn, () => {}) };
}

const ALL_SPILLED: KeptSequences = {
  copied: [],
  spilled: inPlace(0, 1, 2),
  spillMs: 60_000,
  spillBytes: 2 ** 20,
  cacheBytes: 2 ** 20,
};

t.test('what memory has no room for goes through files, of which nothing stays', async (t) => {
  const folder = t.testdir();
  const { engine, keeper, spill, warnings } = standing(folder);
  const before = TOKENS.map((_, sequence) => engine.saveSequence(sequence));
  const { carried, rung } = keeper.move(0, { ...ALL_SPILLED, copied: inPlace(2), spilled: inPlace(0, 1) });
  t.equal(rung, 0);
  t.same(carried, [2, 0, 1]);
  t.same(
    TOKENS.map((_, sequence) => engine.saveSequence(sequence)),
    before,
    'to the byte',
  );
  t.same(readdirSync(folder), []);
  t.ok(spill.bytesPerMs > 0, 'the rate is known now');
  t.same(warnings, []);
});

t.test('a disk that is full: the rest is computed again, with one line', async (t) => {
  const folder = t.testdir();
  const { keeper, warnings } = standing(folder, { failWrite: [2] });
  t.same(keeper.move(0, ALL_SPILLED).carried, [0]);
  t.equal(warnings.length, 1);
  t.match(warnings[0], /2 of 3 sequences could not be kept in files and are computed again: .*write/);
  t.same(readdirSync(folder), []);
});

t.test('a file that is shorter than the engine says is never read', async (t) => {
  const { engine, keeper, warnings } = standing(t.testdir());
  const write = engine.writeSequence.bind(engine);
  engine.writeSequence = (sequence, path, cachedBytes) => write(sequence, path, cachedBytes) + 1;
  t.same(keeper.move(0, ALL_SPILLED).carried, []);
  t.match(warnings, [/3 of 3 sequences .*not whole/]);
});

t.test('a disk that is slow: no more than what the time allows', async (t) => {
  const { keeper, warnings } = standing(t.testdir());
  t.same(keeper.move(0, { ...ALL_SPILLED, spillMs: 0 }).carried, [0], 'the first told how long the next takes');
  t.match(warnings, [/2 of 3 sequences could not be kept in files .*: writing 1 took/]);
});

t.test('no room on the disk, no folder, a folder that is gone: nothing is carried, and the move is made', async (t) => {
  const full = standing(t.testdir());
  t.same(full.keeper.move(0, { ...ALL_SPILLED, spillBytes: 2 ** 60 }).carried, []);
  t.match(full.warnings, [/3 of 3 sequences .* bytes free/]);
  const gone = standing('/nowhere/at/all');
  t.same(gone.keeper.move(0, ALL_SPILLED).carried, []);
  t.match(gone.warnings, [/ENOENT/]);
  const none = standing(null);
  t.equal(none.keeper.move(0, ALL_SPILLED).rung, 0);
});

t.test('what does not fit after all is left behind, and its file goes', async (t) => {
  const folder = t.testdir();
  const { keeper } = standing(folder, { failRestore: [2] });
  t.same(keeper.move(0, ALL_SPILLED).carried, [0, 2]);
  t.same(readdirSync(folder), []);
});

t.test('a copy for which there is no memory costs its sequence, not the move', async (t) => {
  const { keeper, warnings } = standing(t.testdir(), { failSave: [1] });
  t.same(keeper.move(0, { ...ALL_SPILLED, copied: inPlace(0, 1), spilled: inPlace(2) }).carried, [1, 2]);
  t.match(warnings, [/computed again: there is no memory/]);
});

/** 100 kB a token in 10 layers, 100 µs to write and 100 to read at 1 GB/s. */
const INPUT: SpillInput = {
  spillMs: 500,
  marginBytes: 80e6,
  cellBytes: 100_000,
  layers: 10,
  bytesPerMs: 1e6,
  promptTokenMicros: 2_000,
};

t.test('files take what their disk writes in the time there is, no sequence whose rows a margin feels', async (t) => {
  t.same(spillBudget(INPUT), { spillTokens: 5_000, spillLongestTokens: 1_000 });
  t.equal(spillBudget({ ...INPUT, bytesPerMs: 2e6 }).spillTokens, 10_000);
  t.equal(spillBudget({ ...INPUT, bytesPerMs: 0 }).spillTokens, 5_000, 'at first a good disk is assumed');
  t.equal(spillBudget({ ...INPUT, spillMs: 0 }).spillTokens, 0);
});

t.test('a disk that is hardly faster than computing is left alone', async (t) => {
  t.equal(spillBudget({ ...INPUT, promptTokenMicros: 399 }).spillTokens, 0);
  t.equal(spillBudget({ ...INPUT, promptTokenMicros: 400 }).spillTokens, 5_000);
  t.equal(spillBudget({ ...INPUT, promptTokenMicros: 0 }).spillTokens, 5_000, 'nothing was computed yet');
});
