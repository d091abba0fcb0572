import t from 'tap';
import { Prompts } from '../../src/main/bench-command/prompts.js';
import { WORDS } from '../../src/main/bench-command/words.js';

const SCALE = { tokensPerWord: 2, overheadTokens: 20 };
const OPTIONS = { promptTokens: 120, sharedPrefixTokens: 0, turns: 1, seed: 5 };

function wordsOf(text: string): string[] {
  return text.split(' ');
}

/** Words that two texts begin with alike. */
function sharedWords(a: string, b: string): number {
  const [left, right] = [wordsOf(a), wordsOf(b)];
  const at = left.findIndex((word, i) => word !== right[i]);
  return at < 0 ? left.length : at;
}

t.test('as many words as make the tokens that were asked for', async (t) => {
  t.equal(wordsOf(new Prompts(OPTIONS, SCALE).message(0, 0)).length, 50, 'less the template');
  t.equal(wordsOf(new Prompts({ ...OPTIONS, promptTokens: 1 }, SCALE).message(0, 0)).length, 1, 'one at least');
  const long = new Prompts({ ...OPTIONS, sharedPrefixTokens: 400, turns: 2 }, SCALE);
  t.equal(wordsOf(long.message(0, 0)).length, 250);
  t.equal(wordsOf(long.message(0, 1)).length, 60, 'later turns bring no prefix');
});

t.test('different requests share nothing unless asked to', async (t) => {
  const prompts = new Prompts(OPTIONS, SCALE);
  const texts = Array.from({ length: 200 }, (_, chat) => prompts.message(chat, 0));
  t.equal(new Set(texts.map((text) => wordsOf(text).slice(0, 4).join(' '))).size, 200);
  const shared = new Prompts({ ...OPTIONS, sharedPrefixTokens: 60 }, SCALE);
  const overlaps = Array.from({ length: 20 }, (_, i) => sharedWords(shared.message(i, 0), shared.message(i + 1, 0)));
  t.ok(
    overlaps.every((count) => count >= 30 && count <= 32),
    `${overlaps}`,
  );
});

t.test('the same seed gives the same prompts, a neighbouring one none of them', async (t) => {
  const texts = (seed: number) => {
    const prompts = new Prompts({ ...OPTIONS, seed, turns: 2 }, SCALE);
    return Array.from({ length: 100 }, (_, i) => prompts.message(i >> 1, i & 1));
  };
  t.same(texts(5), texts(5));
  t.equal(new Set([...texts(5), ...texts(6)]).size, 200);
});

t.test('the words are words, each once', async (t) => {
  t.equal(WORDS.length, 256);
  t.equal(new Set(WORDS).size, 256);
  t.ok(WORDS.every((word) => /^[a-z]+$/.test(word)));
});
