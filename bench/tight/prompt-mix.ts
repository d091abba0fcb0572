import { promptTokens } from '../load/prompts.js';

/** A mix of prompts: lengths spread evenly, every third one begins like one of the last new ones. */
export interface PromptMix {
  leastTokens: number;
  mostTokens: number;
  outputTokens: number;
  seed: number;
}

/** How far back a repeated prefix comes from, in new prompts. Chosen: some are still cached, some are not. */
const REPEAT_BACK = 8;
/** Share of the earlier prompt that is repeated. Chosen: a conversation that goes on. */
const REPEAT_SHARE = 0.75;

/** The n-th prompt of the mix: the same in every run and for every server. */
export function mixedPrompt(mix: PromptMix, n: number): number[] {
  const length = lengthOf(mix, n);
  if (!isRepeat(n)) return newPrompt(mix, n, length);
  const newBefore = newPromptsBefore(n);
  const back = 1 + (hash(mix.seed + n) % Math.min(REPEAT_BACK, newBefore));
  const earlier = newPromptIndex(newBefore - back);
  const prefix = newPrompt(mix, earlier, lengthOf(mix, earlier));
  const kept = Math.min(Math.floor(prefix.length * REPEAT_SHARE), length - 1);
  return [...prefix.slice(0, kept), ...newPrompt(mix, n, length - kept)];
}

export function isRepeat(n: number): boolean {
  return n % 3 === 2;
}

function newPromptsBefore(n: number): number {
  return n - Math.floor(n / 3);
}

/** The place in the mix of its k-th new prompt. */
function newPromptIndex(k: number): number {
  return Math.floor(k / 2) * 3 + (k % 2);
}

function newPrompt(mix: PromptMix, n: number, length: number): number[] {
  return promptTokens({ promptTokens: length, sharedTokens: 0, outputTokens: 0 }, mix.seed, n);
}

function lengthOf({ leastTokens, mostTokens, seed }: PromptMix, n: number): number {
  return leastTokens + (hash(seed * 31 + n) % (mostTokens - leastTokens + 1));
}

/** A well mixed non-negative integer. */
function hash(value: number): number {
  let x = Math.imul(value ^ 0x9e3779b9, 0x85ebca6b);
  x = Math.imul(x ^ (x >>> 13), 0xc2b2ae35);
  return (x ^ (x >>> 16)) >>> 0;
}
