/** Shape of the requests of a load: token counts, the same for every server. */
export interface PromptShape {
  /** Prompt tokens of one request. */
  promptTokens: number;
  /** Of these the first ones are the same in every request. */
  sharedTokens: number;
  outputTokens: number;
}

/** Token ids that are plain text in the usual vocabularies: above the control tokens and the bytes, below the smallest vocabulary's end. */
const FIRST_TOKEN = 1_000;
const LAST_TOKEN = 30_000;

/** The n-th prompt of a load with `seed`: token ids, random but the same in every run. */
export function promptTokens(shape: PromptShape, seed: number, n: number): number[] {
  const shared = randomTokens(seed, shape.sharedTokens);
  return [...shared, ...randomTokens(seed + 1 + n, shape.promptTokens - shape.sharedTokens)];
}

/** mulberry32: small, good enough, the same everywhere. */
function randomTokens(seed: number, count: number): number[] {
  let state = Math.imul(seed + 1, 0x9e3779b1);
  return Array.from({ length: count }, () => {
    state = (state + 0x6d2b79f5) | 0;
    let x = Math.imul(state ^ (state >>> 15), 1 | state);
    x = (x + Math.imul(x ^ (x >>> 7), 61 | x)) ^ x;
    return FIRST_TOKEN + (((x ^ (x >>> 14)) >>> 0) % (LAST_TOKEN - FIRST_TOKEN));
  });
}
