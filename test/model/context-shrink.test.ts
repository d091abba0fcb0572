/** Four live sequences of 2k tokens go into a smaller context, half of them through files, and say what they would have said. */
import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { ContextKeeper } from '../../src/workers/context-keeper.js';
import { SequenceSpill } from '../../src/workers/sequence-spill.js';
import { EngineUnderTest, SMALL_CONTEXT, tokensFrom } from '../addon/engine-under-test.js';
import { inPlace } from '../support/in-place.js';

// Model tests wait for the cores that other tests use.
t.setTimeout(300_000);

const LIVE = 4;
const PROMPT_TOKENS = 2_000;
const CHUNK_TOKENS = 500;
const BEFORE_MOVE = 4;
const OUTPUT_TOKENS = 12;
/** Streams: what a sequence computes does not depend on where in memory it lies, and answers are equal to the token. */
const LOWER = { ...SMALL_CONTEXT, layout: 'private', cells: 2_048, batchTokens: 512, ubatchTokens: 512 } as const;
const UPPER = { ...LOWER, cells: 4_096 };
/** Of files; less than one of them has. */
const CACHED_BYTES = 2 ** 24;
const EVERYBODY = Array.from({ length: LIVE }, (_, sequence) => sequence);

function prefill(under: EngineUnderTest): void {
  for (const sequence of EVERYBODY)
    for (let position = 0; position < PROMPT_TOKENS; position += CHUNK_TOKENS) {
      const tokens = tokensFrom(sequence, PROMPT_TOKENS).slice(position, position + CHUNK_TOKENS);
      under.step({ segments: [{ sequence, request: sequence + 1, position, tokens, sample: false }] });
    }
}

/** Goes on with all answers together, by `count` tokens each. */
function decode(under: EngineUnderTest, answers: number[][], count: number): void {
  const starts = EVERYBODY.map((sequence) => ({ sequence, request: sequence + 1 }));
  for (let i = 0; i < count; i++) {
    const segments = EVERYBODY.map((sequence) => {
      const answer = answers[sequence];
      return { sequence, request: sequence + 1, position: PROMPT_TOKENS + answer.length - 1, tokens: answer.slice(-1) };
    });
    const samples = under.step({ starts: i === 0 ? starts : [], segments });
    for (const { sequence, token } of samples) answers[sequence].push(token);
  }
}

/** Bytes of a file that are in the file cache; null where nobody tells. */
function residentBytes(file: string): number | null {
  const { status, stdout } = spawnSync('fincore', ['--bytes', '--noheadings', '--output', 'RES', file], {
    encoding: 'utf8',
  });
  return status === 0 ? Number(stdout) : null;
}

/** Each answer begins with a token that nobody sampled, behind the prompt's end. */
const begun = () => EVERYBODY.map((sequence) => [400 + sequence]);

t.test('four answers of 2k tokens go on in half of the context', async (t) => {
  const under = new EngineUnderTest('smollm2-q4_0');
  t.teardown(() => under.close());
  under.createContext(UPPER);
  prefill(under);
  const states = EVERYBODY.map((sequence) => under.engine.saveSequence(sequence));
  const expected = begun();
  decode(under, expected, OUTPUT_TOKENS);

  under.createContext(UPPER);
  EVERYBODY.forEach((sequence) => {
    t.ok(under.engine.restoreSequence(sequence, states[sequence]));
  });
  const folder = t.testdir();
  const spill = new SequenceSpill(under.engine, folder, t.fail);
  const keeper = new ContextKeeper(under.engine, [LOWER, UPPER], 1, spill, t.fail, () => {});
  const moved = begun();
  decode(under, moved, BEFORE_MOVE);
  const kept = {
    copied: inPlace(2, 0),
    spilled: inPlace(3, 1),
    spillMs: 60_000,
    spillBytes: 2 ** 28,
    cacheBytes: CACHED_BYTES,
  };
  t.same(keeper.move(0, kept).carried, [2, 0, 3, 1]);
  t.same(readdirSync(folder), []);
  decode(under, moved, OUTPUT_TOKENS - BEFORE_MOVE);
  t.same(moved, expected);

  const file = path.join(folder, 'sequence');
  const written = under.engine.writeSequence(0, file, CACHED_BYTES);
  const resident = residentBytes(file);
  t.ok(written > 2 * CACHED_BYTES);
  t.ok(resident === null || resident < CACHED_BYTES + 2 ** 22, `${resident} bytes stay in the file cache`);
});
