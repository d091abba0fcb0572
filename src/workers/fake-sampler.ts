import { START, START_WORDS } from '../shared/batch-wire.js';
import { f32Bits, f32FromBits } from '../shared/sampling.js';
import { SAMPLING, SAMPLING_FIXED_WORDS, SAMPLING_FLAG } from '../shared/sampling-wire.js';
import { SAMPLE, SAMPLE_FLAG } from '../shared/step-output.js';
import { chooseToken, type FakeEndRules, type FakeSamplerRules, seedHash } from './fake-tokens.js';
import { FAKE_END_OF_TURN, FAKE_EOS, FAKE_VOCABULARY_SIZE } from './fake-vocabulary.js';

/** A bias from here on forces its token, and the negative of it bans the token: OpenAI's description of logit_bias. */
const DECISIVE_BIAS = 100;

/** The sampler of one sequence: which request it serves, and what is known of that request. One object a sequence, reused. */
export class FakeSampler implements FakeSamplerRules {
  /** Last request that was bound; 0: none yet. */
  request = 0;
  /** False once the request is over or stopped: its placeholders are then dropped. */
  isActive = false;
  /** Sampled, and not yet decoded by a placeholder; −1: none. */
  pendingToken = -1;
  sampledCount = 0;

  seedHash = 0;
  ignoreEos = false;
  forcedToken = -1;
  bannedTokens: Set<number> | null = null;
  private maxTokens = 0;
  private logprobs = -1;
  private hasBrokenGrammar = false;

  /** Binds the request of the start record at `start`. Returns the index after the record. */
  start(words: Int32Array, start: number): number {
    const at = start + START_WORDS + words[start + START.historyCount];
    this.request = words[start + START.request];
    this.isActive = true;
    this.pendingToken = -1;
    this.sampledCount = words[start + START.sampledBefore];
    this.seedHash = seedHash(f32FromBits(words[at + SAMPLING.temperature]), words[at + SAMPLING.seed]);
    this.ignoreEos = (words[at + SAMPLING.flags] & SAMPLING_FLAG.ignoreEos) !== 0;
    this.maxTokens = words[at + SAMPLING.maxTokens];
    this.logprobs = words[at + SAMPLING.logprobs];
    this.readBiases(words, at);
    this.hasBrokenGrammar = !hasRootRule(words, at);
    return at + words[at + SAMPLING.totalWords];
  }

  stop(): void {
    this.isActive = false;
    this.pendingToken = -1;
  }

  /** Chooses the next token after a sequence of `hash` and writes the sample to `output` at `at`. */
  sample(sequence: number, hash: number, last: number, ends: FakeEndRules, output: Int32Array, at: number): void {
    const token = chooseToken(hash, last, this.sampledCount, this, ends);
    this.sampledCount++;
    this.pendingToken = token;
    let flags = 0;
    if (isEndOfGeneration(token) && !this.ignoreEos) flags |= SAMPLE_FLAG.endOfGeneration;
    if (this.sampledCount >= this.maxTokens) flags |= SAMPLE_FLAG.maxTokens;
    if (this.hasBrokenGrammar) flags |= SAMPLE_FLAG.samplerFailed;
    if (flags !== 0) this.stop();
    output[at + SAMPLE.sequence] = sequence;
    output[at + SAMPLE.request] = this.request;
    output[at + SAMPLE.token] = token;
    output[at + SAMPLE.flags] = flags;
    this.writeLogprobs(token, output, at);
  }

  /** The chosen token first, its neighbours in the vocabulary after it, each half as likely as the one before. */
  private writeLogprobs(token: number, output: Int32Array, at: number): void {
    const topCount = Math.max(this.logprobs, 0);
    output[at + SAMPLE.logprob] = f32Bits(this.logprobs < 0 ? Number.NaN : -Math.LN2);
    output[at + SAMPLE.topCount] = topCount;
    for (let i = 0; i < topCount; i++) {
      output[at + SAMPLE.top + i * 2] = (token + i) % FAKE_VOCABULARY_SIZE;
      output[at + SAMPLE.top + i * 2 + 1] = f32Bits(-Math.LN2 * (i + 1));
    }
  }

  private readBiases(words: Int32Array, at: number): void {
    this.forcedToken = -1;
    this.bannedTokens = null;
    for (let i = 0; i < words[at + SAMPLING.biasCount]; i++) {
      const token = words[at + SAMPLING_FIXED_WORDS + i * 2];
      const bias = f32FromBits(words[at + SAMPLING_FIXED_WORDS + i * 2 + 1]);
      if (bias >= DECISIVE_BIAS) this.forcedToken = token;
      if (bias <= -DECISIVE_BIAS) (this.bannedTokens ??= new Set()).add(token);
    }
  }
}

function isEndOfGeneration(token: number): boolean {
  return token === FAKE_EOS || token === FAKE_END_OF_TURN;
}

/** Whether the sampling block's grammar, if it has one, has a root rule: without it the sampler fails, as the engine's does. */
function hasRootRule(words: Int32Array, at: number): boolean {
  const grammarBytes = words[at + SAMPLING.grammarBytes];
  if (grammarBytes === 0) return true;
  const grammarAt = at + SAMPLING_FIXED_WORDS + words[at + SAMPLING.biasCount] * 2;
  // A decoder refuses shared memory, so the bytes are copied out first.
  const bytes = Uint8Array.from(new Uint8Array(words.buffer, words.byteOffset + grammarAt * 4, grammarBytes));
  return new TextDecoder().decode(bytes).includes('root');
}
