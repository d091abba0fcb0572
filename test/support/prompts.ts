/** Prompts of known lengths out of one short text that has prose, code, numbers and other alphabets in it. */
import type { Vocabulary } from '../../src/shared/engine.js';

const TEXT = [
  'The ship had lain at the quay since Tuesday, and nobody knew what was in the crates.',
  'def load_line(draft, freeboard):\n    return draft + freeboard > 0\n',
  'In 1876 the Merchant Shipping Act required a mark on every hull: 7, 14, 21, 28, 35.',
  'Der Kapitän fragte höflich nach dem Weg zum Hafen, während es in Strömen regnete.',
  '{"name": "Samuel", "office": "MP for Derby", "years": [1868, 1880], "alive": false}',
  'Two brown dogs ran along the river, then three, then five, then eight.',
  'Question: why does ice float on water? Answer: because it is less dense than the liquid.',
  'Пароход медленно отошёл от причала. 船は港を出た。',
  'SELECT name, tonnage FROM ships WHERE tonnage > 5000 ORDER BY name;',
  'She opened the letter, read it twice, and laughed until the candles went out.',
];

/** `count` prompts of `leastTokens` to `mostTokens` tokens, each beginning elsewhere in the text; the text has ten places to begin. */
export function makePrompts(
  vocabulary: Vocabulary,
  count: number,
  leastTokens: number,
  mostTokens = leastTokens,
): number[][] {
  return Array.from({ length: count }, (_, index) => {
    const from = index % TEXT.length;
    const turned = [...TEXT.slice(from), ...TEXT.slice(0, from)].join('\n');
    const length = leastTokens + Math.round((index * (mostTokens - leastTokens)) / Math.max(1, count - 1));
    const once = vocabulary.tokenize(turned, true, false);
    const tokens = [...once];
    while (tokens.length < length) tokens.push(...once);
    return tokens.slice(0, length);
  });
}
