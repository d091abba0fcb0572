import { readdirSync, readFileSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { DISK_PREFIXES_MAX } from '../../src/shared/disk-messages.js';
import {
  BadFile,
  encodeHead,
  PrefixFileReader,
  PrefixFileWriter,
  prefixFileBytes,
} from '../../src/workers/prefix-file.js';
import { PrefixFolder } from '../../src/workers/prefix-folder.js';

const NOTES = { identity: 'this model', cacheSalt: -7, hits: 3 };
const TOKENS = Int32Array.of(1, -2, 2 ** 31 - 1, 4);
const STATE = Uint8Array.from({ length: 1000 }, (_, i) => (i * i) & 255);

function write(file: string, state = STATE, notes = NOTES, tokens = TOKENS): void {
  const writer = new PrefixFileWriter(file, encodeHead(notes, tokens, state.length));
  for (let at = 0; at < state.length; at += 300) writer.append(state.subarray(at, at + 300));
  writer.finish();
}

function read(file: string): { head: PrefixFileReader['head']; state: Uint8Array } {
  const reader = new PrefixFileReader(file);
  try {
    const state = new Uint8Array(reader.head.stateBytes);
    for (let at = 0; at < state.length; at += 128) reader.read(state.subarray(at, at + 128));
    reader.check();
    return { head: reader.head, state };
  } finally {
    reader.close();
  }
}

function isBad(file: string): boolean {
  try {
    read(file);
    return false;
  } catch (error) {
    return error instanceof BadFile;
  }
}

t.test('what is written comes back', async (t) => {
  const file = path.join(t.testdir(), 'a');
  write(file);
  const { head, state } = read(file);
  const { identity, cacheSalt, hits, tokens, fileBytes } = head;
  t.same({ identity, cacheSalt, hits }, NOTES);
  t.same(tokens, TOKENS);
  t.same(state, STATE);
  t.equal(fileBytes, statSync(file).size);
  t.equal(fileBytes, prefixFileBytes(encodeHead(NOTES, TOKENS, STATE.length), STATE.length));
  t.equal(statSync(file).mode & 0o777, 0o600);
});

t.test('any byte that is changed, and any length, is noticed', async (t) => {
  const file = path.join(t.testdir(), 'a');
  write(file);
  const whole = readFileSync(file);
  for (let at = 0; at < whole.length; at++) {
    const damaged = Buffer.from(whole);
    damaged[at] ^= 1 << (at % 8);
    writeFileSync(file, damaged);
    t.ok(isBad(file), `byte ${at}`);
  }
  for (const length of [0, 7, 8, 23, 24, 60, whole.length >> 1, whole.length - 1]) {
    writeFileSync(file, whole.subarray(0, length));
    t.ok(isBad(file), `${length} bytes`);
  }
  writeFileSync(file, Buffer.concat([whole, Buffer.from('x')]));
  t.ok(isBad(file), 'a byte too many');
});

t.test('a file takes its name when it is whole; one that is given up leaves nothing', async (t) => {
  const folder = t.testdir();
  const file = path.join(folder, 'a');
  const writer = new PrefixFileWriter(file, encodeHead(NOTES, TOKENS, STATE.length));
  writer.append(STATE);
  t.same(readdirSync(folder), ['a.partial']);
  writer.abort();
  writer.abort();
  t.same(readdirSync(folder), []);
});

t.test("a folder: what is right stays, what is wrong goes, the rest is nobody's business", async (t) => {
  const folder = t.testdir({
    'mine.txt': 'x',
    'a.plimsoll-prefix': 'x',
    '4.plimsoll-prefix': 'x',
    '5.plimsoll-prefix.partial': 'x',
  });
  const at = (name: string) => path.join(folder, name);
  write(at('1.plimsoll-prefix'));
  write(at('2.plimsoll-prefix'));
  write(at('3.plimsoll-prefix'), STATE, { ...NOTES, identity: 'another model' });
  truncateSync(at('2.plimsoll-prefix'), 500);
  const prefixes = new PrefixFolder(folder, NOTES.identity, 1e6);
  const [found, ...others] = prefixes.open();
  t.same(others, []);
  t.same([found.id, found.tokens, found.cacheSalt, found.stateBytes], [1, TOKENS, -7, STATE.length]);
  t.equal(prefixes.bytes, statSync(at('1.plimsoll-prefix')).size);
  t.same(readdirSync(folder).sort(), ['1.plimsoll-prefix', 'a.plimsoll-prefix', 'mine.txt']);
  t.same(
    prefixes.problems.map(({ name }) => name).sort(),
    ['2', '3', '4'].map((id) => `${id}.plimsoll-prefix`),
  );
});

t.test('a folder that is too full, or has too many files, loses the oldest', async (t) => {
  const folder = t.testdir();
  const at = (id: number) => path.join(folder, `${id}.plimsoll-prefix`);
  const make = (bound: number) => new PrefixFolder(folder, NOTES.identity, bound);
  for (let id = 1; id <= 4; id++) write(at(id));
  const dates = make(1e6);
  for (let id = 1; id <= 4; id++) dates.touch(id, (5 - id) * 60_000);
  const one = statSync(at(1)).size;
  t.same(
    make(2 * one)
      .open()
      .map(({ id }) => id)
      .sort(),
    [3, 4],
  );
  t.equal(make(2 * one).open().length, 2);
  for (let id = 10; id < 10 + DISK_PREFIXES_MAX; id++) write(at(id));
  t.equal(make(1e9).open().length, DISK_PREFIXES_MAX);
  t.equal(readdirSync(folder).length, DISK_PREFIXES_MAX);
});
