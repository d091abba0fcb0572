import { SeededRandom } from '../../shared/simulation/random.js';
import type { BenchOptions } from './bench-options.js';
import { WORDS } from './words.js';

/** How the server counts a prompt: `overheadTokens` for the chat template, and `tokensPerWord`. */
export interface TokenScale {
  tokensPerWord: number;
  overheadTokens: number;
}

export interface ChatMessage {
  role: 'user' | 'assistant';
  content: string;
}

/** Seeds of requests that are not part of the load lie beyond those that are. */
const CALIBRATION_SEED = -1_000_000;

/** Random words, the same for the same seed. Texts of different seeds differ from the first word on, but for one in 256. */
export function randomWords(seed: number, count: number): string {
  const random = new SeededRandom(seed);
  return Array.from({ length: count }, () => WORDS[random.within([0, WORDS.length - 1])]).join(' ');
}

/** The `n`-th text of the requests that find out how the server counts. */
export function calibrationText(n: number, words: number): string {
  return randomWords(CALIBRATION_SEED - n, words);
}

type PromptOptions = Pick<BenchOptions, 'promptTokens' | 'sharedPrefixTokens' | 'turns' | 'seed'>;

/** The users' messages of a load. */
export class Prompts {
  private readonly shared: string;
  private readonly firstWords: number;
  private readonly laterWords: number;

  constructor(
    private readonly options: PromptOptions,
    { tokensPerWord, overheadTokens }: TokenScale,
  ) {
    const wordsOf = (tokens: number) => Math.max(1, Math.round(tokens / tokensPerWord));
    const { promptTokens, sharedPrefixTokens, seed } = options;
    // The template is part of what a first prompt computes. A later message brings some of it too, which nobody can tell apart.
    this.firstWords = wordsOf(promptTokens - overheadTokens);
    this.laterWords = wordsOf(promptTokens);
    this.shared = sharedPrefixTokens === 0 ? '' : `${randomWords(this.seedOf(seed, 0), wordsOf(sharedPrefixTokens))} `;
  }

  /** What the user says in the `turn`-th turn (from 0) of the `chat`-th chat. */
  message(chat: number, turn: number): string {
    const { seed, turns } = this.options;
    const text = randomWords(
      this.seedOf(seed, 1 + chat * turns + turn),
      turn === 0 ? this.firstWords : this.laterWords,
    );
    return turn === 0 ? this.shared + text : text;
  }

  /** Far apart for neighbouring seeds, so that two runs share no prompts: a server may still have the first one's in its cache. */
  private seedOf(seed: number, n: number): number {
    return Math.imul(seed, 0x9e3779b1) + n;
  }
}
