import { FAKE_END_OF_TURN, FAKE_EOS, FAKE_FIRST_HALF, FAKE_PIECE_TOKENS, FAKE_SECOND_HALF } from './fake-vocabulary.js';

/**
 * The fake model: the next token is a function of the tokens before it and of nothing else. A 32-bit hash is carried from position to
 * position, so a decode costs the same at any length and a wrong, missing or repeated token anywhere before changes all that follow.
 */
export const EMPTY_HASH = 0x2545f491;

/** What the model says next where nothing special happens: text that a person can look at, with some characters of several bytes. */
const COMMON_TOKENS = Int32Array.from([
  ...[...'etaoin shrdlu etaoin cmfwyp etaoin vbgkqjxz etaoin,.'].map((c) => c.charCodeAt(0)),
  ...FAKE_PIECE_TOKENS,
  FAKE_FIRST_HALF,
]);

function mix(hash: number): number {
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return hash ^ (hash >>> 16);
}

/** Hash of a sequence that had `hash` and got `token`. */
export function nextHash(hash: number, token: number): number {
  return mix(hash ^ Math.imul(token + 1, 0x9e3779b1));
}

/** What a request brings to the choice of its tokens. */
export interface FakeSamplerRules {
  /** 0 for greedy; else the seed takes part in the hash. */
  seedHash: number;
  ignoreEos: boolean;
  /** A bias of ≥ 100 always wins; −1: none. */
  forcedToken: number;
  /** Tokens with a bias of ≤ −100. */
  bannedTokens: ReadonlySet<number> | null;
}

export function seedHash(temperature: number, seed: number): number {
  return temperature > 0 ? mix(seed ^ 0x51ed270b) | 1 : 0;
}

export interface FakeEndRules {
  endOfGenerationAfter: number;
  endOfGenerationProbability: number;
}

/** The token after a sequence of hash `hash` whose last token is `last`; `sampledCount` tokens of the request came before. */
export function chooseToken(
  hash: number,
  last: number,
  sampledCount: number,
  rules: FakeSamplerRules,
  ends: FakeEndRules,
): number {
  if (rules.forcedToken >= 0) return rules.forcedToken;
  const choice = mix(hash ^ rules.seedHash);
  if (!rules.ignoreEos) {
    if (ends.endOfGenerationAfter > 0 && sampledCount >= ends.endOfGenerationAfter) return FAKE_EOS;
    if ((mix(choice ^ 0x7f4a7c15) >>> 0) / 2 ** 32 < ends.endOfGenerationProbability) return FAKE_END_OF_TURN;
  }
  if (last === FAKE_FIRST_HALF) return FAKE_SECOND_HALF;
  let i = (choice >>> 0) % COMMON_TOKENS.length;
  if (rules.bannedTokens !== null) {
    for (let tries = 0; tries < COMMON_TOKENS.length && rules.bannedTokens.has(COMMON_TOKENS[i]); tries++) {
      i = (i + 1) % COMMON_TOKENS.length;
    }
  }
  return COMMON_TOKENS[i];
}

export interface FakeCompletionOptions {
  temperature?: number;
  seed?: number;
  ignoreEos?: boolean;
  endOfGenerationAfter?: number;
  endOfGenerationProbability?: number;
}

/** What the fake engine must answer to `prompt`, computed without it: the reference of the tests. An end token is left out. */
export function fakeCompletion(
  prompt: ArrayLike<number>,
  maxTokens: number,
  options: FakeCompletionOptions = {},
): number[] {
  const rules: FakeSamplerRules = {
    seedHash: seedHash(options.temperature ?? 0, options.seed ?? 0),
    ignoreEos: options.ignoreEos ?? false,
    forcedToken: -1,
    bannedTokens: null,
  };
  const ends: FakeEndRules = {
    endOfGenerationAfter: options.endOfGenerationAfter ?? 0,
    endOfGenerationProbability: options.endOfGenerationProbability ?? 0,
  };
  let hash = EMPTY_HASH;
  let last = -1;
  for (let i = 0; i < prompt.length; i++) {
    last = prompt[i];
    hash = nextHash(hash, last);
  }
  const output: number[] = [];
  while (output.length < maxTokens) {
    last = chooseToken(hash, last, output.length, rules, ends);
    if (last === FAKE_EOS || last === FAKE_END_OF_TURN) break;
    output.push(last);
    hash = nextHash(hash, last);
  }
  return output;
}
