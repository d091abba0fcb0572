import { openSync, readdirSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { EngineUnderTest, tokensFrom } from './engine-under-test.js';

t.setTimeout(180_000);

const under = new EngineUnderTest('tiny-qwen3');
t.teardown(() => under.close());

const PROMPT = tokensFrom(1, 40);

function prefill(sequence: number): void {
  under.step({ segments: [{ sequence, request: 9, position: 0, tokens: PROMPT, sample: false }] });
}

/** Greedy tokens behind the prompt, which stands in `sequence`. */
function goOn(sequence: number): number[] {
  const start = [{ sequence, request: 1 }];
  const segment = { sequence, request: 1, position: PROMPT.length, tokens: [77] };
  const tokens = [under.step({ starts: start, segments: [segment] })[0].token];
  while (tokens.length < 8) {
    const position = PROMPT.length + tokens.length;
    tokens.push(under.step({ segments: [{ sequence, request: 1, position }] })[0].token);
  }
  return tokens;
}

const shape = (layout: 'private' | 'shared', sequences: number) =>
  under.createContext({ layout, sequences, flashAttention: 'off' });

/** From so many streams, out of this one, into so many, as this one. */
const MOVES = [
  { from: 4, out: 2, to: 1, into: 0 },
  { from: 1, out: 0, to: 4, into: 3 },
  { from: 2, out: 1, to: 4, into: 0 },
  { from: 4, out: 3, to: 4, into: 1 },
] as const;

for (const { from, out, to, into } of MOVES) {
  t.test(`a state of stream ${out} of ${from} goes on as stream ${into} of ${to}`, async (t) => {
    shape('private', from);
    prefill(out);
    const state = under.engine.saveSequence(out);
    const expected = goOn(out);
    shape('private', to);
    t.ok(under.engine.restoreSequence(into, state));
    t.same(goOn(into), expected);
    shape('shared', 4);
    t.ok(under.engine.restoreSequence(1, state), 'into a pool as well, and it can be restored again');
    t.same(goOn(1), expected);
  });
}

t.test('the same through a file', async (t) => {
  const folder = t.testdir();
  const file = path.join(folder, 'sequence');
  shape('private', 4);
  prefill(0);
  t.ok(under.engine.writeSequence(0, file, 0) > 0);
  const expected = goOn(0);
  for (const sequences of [1, 2, 4, 6]) {
    shape('private', sequences);
    t.ok(under.engine.readSequence(sequences - 1, file), `${sequences} streams`);
    t.same(goOn(sequences - 1), expected, `${sequences} streams`);
  }
  shape('private', 4);
  prefill(3);
  under.engine.writeSequence(3, file, 2 ** 30);
  const third = goOn(3);
  for (const sequences of [2, 1, 4, 3]) {
    shape('private', sequences);
    t.ok(under.engine.readSequence(0, file), `${sequences} streams, of which none is the fourth`);
    t.same(goOn(0), third);
  }
  t.same(readdirSync(folder), ['sequence']);
  shape('private', 6);
  const descriptor = openSync(file, 'r');
  t.ok(under.engine.readSequence(5, `/dev/fd/${descriptor}`), 'under a name that is only a descriptor');
  t.same(goOn(5), expected);
});
