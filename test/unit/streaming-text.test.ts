import fc from 'fast-check';
import t from 'tap';
import { Detokenizer, incompleteTailBytes } from '../../src/main/streaming/detokenizer.js';
import { PieceTable } from '../../src/main/streaming/piece-table.js';
import { StopMatcher, StopStrings } from '../../src/main/streaming/stop-strings.js';
import { TextStream } from '../../src/main/streaming/text-stream.js';

const whole = new TextDecoder('utf-8', { ignoreBOM: true });

/** A vocabulary in which token i has the i-th piece. */
function tableOf(pieces: readonly Uint8Array[]): PieceTable {
  const offsets = new Int32Array(pieces.length + 1);
  pieces.forEach((piece, i) => {
    offsets[i + 1] = offsets[i] + piece.length;
  });
  const bytes = new Uint8Array(offsets[pieces.length]);
  pieces.forEach((piece, i) => {
    bytes.set(piece, offsets[i]);
  });
  return new PieceTable({ offsets, bytes });
}

function run(table: PieceTable, stops: readonly string[], count: number): { text: string; stopped: boolean } {
  const stream = new TextStream(table, new StopStrings(stops));
  let text = '';
  for (let token = 0; token < count && !stream.stopped; token++) text += stream.push(token);
  return { text: text + stream.end(), stopped: stream.stopped };
}

/** The first stop string that is complete; the longest where two are at once. */
function firstStop(text: string, stops: readonly string[]): string {
  for (let end = 1; end <= text.length; end++) {
    const found = stops.filter((stop) => text.slice(0, end).endsWith(stop)).sort((a, b) => b.length - a.length)[0];
    if (found !== undefined) return text.slice(0, end - found.length);
  }
  return text;
}

/** Bytes cut anywhere: characters of every length, broken ones, and raw bytes. */
const anyBytes = fc
  .array(
    fc.oneof(
      fc.string({ unit: 'binary', maxLength: 3 }).map((text) => new TextEncoder().encode(text)),
      fc.uint8Array({ maxLength: 4 }),
      fc.constantFrom('\ufeff', '🙂', 'é', '日本').map((text) => new TextEncoder().encode(text)),
    ),
    { maxLength: 12 },
  )
  .map((parts) => Uint8Array.from(parts.flatMap((part) => Array.from(part))));

function cut(bytes: Uint8Array, cuts: readonly number[]): Uint8Array[] {
  const at = [0, ...cuts.map((cut) => cut % (bytes.length + 1)).sort((a, b) => a - b), bytes.length];
  return at.slice(1).map((end, i) => bytes.slice(at[i], end));
}

t.test('tokens cut anywhere decode to what their bytes decode to as a whole', async (t) => {
  const property = fc.property(anyBytes, fc.array(fc.nat(), { maxLength: 12 }), (bytes, cuts) => {
    const pieces = cut(bytes, cuts);
    const detokenizer = new Detokenizer(tableOf(pieces));
    const text = pieces.map((_, token) => detokenizer.push(token)).join('') + detokenizer.end();
    return text === whole.decode(bytes);
  });
  t.doesNotThrow(() => fc.assert(property, { numRuns: 500 }));
});

t.test('a character is held only while it can still become one', async (t) => {
  t.equal(incompleteTailBytes(Uint8Array.of(0x61)), 0);
  t.equal(incompleteTailBytes(Uint8Array.of(0xe2)), 1);
  t.equal(incompleteTailBytes(Uint8Array.of(0x61, 0xf0, 0x9f, 0x99)), 3);
  t.equal(incompleteTailBytes(Uint8Array.of(0xe0, 0x80)), 0, 'an overlong form is bad already');
  t.equal(incompleteTailBytes(Uint8Array.of(0xed, 0xa0)), 0, 'a surrogate is bad already');
  t.equal(incompleteTailBytes(Uint8Array.of(0x80, 0x80, 0x80)), 0);
  t.equal(incompleteTailBytes(Uint8Array.of(0xff)), 0);
});

t.test('stop strings do not depend on where the text is cut', async (t) => {
  const letters = fc.string({ unit: fc.constantFrom('a', 'b', '🙂'), maxLength: 14 });
  const stopStrings = fc.array(fc.string({ unit: fc.constantFrom('a', 'b', '🙂'), minLength: 1, maxLength: 4 }), {
    maxLength: 4,
  });
  const property = fc.property(letters, stopStrings, fc.array(fc.nat(), { maxLength: 8 }), (text, stops, cuts) => {
    const pieces = cut(new TextEncoder().encode(text), cuts);
    const streamed = run(tableOf(pieces), stops, pieces.length).text;
    const expected = firstStop(text, stops);
    return streamed === expected;
  });
  t.doesNotThrow(() => fc.assert(property, { numRuns: 1000 }));
});

t.test('only what may become a stop string is held back', async (t) => {
  const matcher = new StopMatcher(new StopStrings(['abac', 'xy']));
  t.equal(matcher.push('one ab'), 'one ');
  t.equal(matcher.push('a'), '', 'aba may go on to abac');
  t.equal(matcher.push('b'), 'ab', 'abab: the second ab may');
  t.equal(matcher.push('ax'), 'aba', 'x may be the other one');
  t.equal(matcher.end(), 'x');
});

t.test('after a stop string nothing comes out', async (t) => {
  const matcher = new StopMatcher(new StopStrings(['\n\n']));
  t.equal(matcher.push('a\n'), 'a');
  t.equal(matcher.push('\nb'), '');
  t.equal(matcher.stopped, true);
  t.equal(matcher.push('c') + matcher.end(), '');
});

t.test('a leading byte order mark is text', async (t) => {
  const piece = new TextEncoder().encode('\ufeffa');
  t.equal(new Detokenizer(tableOf([piece])).push(0), '\ufeffa');
});
