import { NOTICE, NOTICE_WORDS } from '../shared/batch-wire.js';
import { RingConsumer } from '../shared/ring.js';
import { f32FromBits } from '../shared/sampling.js';
import { TOKEN_SAMPLE, TOKEN_SAMPLE_WORDS, TOKEN_TYPE } from '../shared/token-wire.js';
import type { SampledToken, TokenAlternative } from './pipeline-types.js';

const NO_ALTERNATIVES: TokenAlternative[] = [];

export interface TokenSink {
  token(request: number, sample: SampledToken, flags: number): void;
  notice(request: number, kind: number, a: number, b: number): void;
}

/** Main's end of the token ring. */
export class TokenReader {
  private readonly ring: RingConsumer;

  constructor(
    buffer: SharedArrayBuffer,
    private readonly sink: TokenSink,
  ) {
    this.ring = new RingConsumer(buffer);
  }

  /** Takes what is there, at most `recordsMax` records, so that sockets get their turn. Returns how many it took. */
  drain(recordsMax: number): number {
    const words = this.ring.payloadWords;
    let taken = 0;
    for (let record = this.ring.peek(); record && taken < recordsMax; record = this.ring.peek()) {
      const { at, type } = record;
      if (type === TOKEN_TYPE.tokens) this.tokens(words, at + 1, words[at]);
      else this.notices(words, at + 1, words[at]);
      this.ring.release();
      taken++;
    }
    return taken;
  }

  private tokens(words: Int32Array, at: number, count: number): void {
    for (let i = 0; i < count; i++) {
      const topCount = words[at + TOKEN_SAMPLE.topCount];
      const sample: SampledToken = {
        token: words[at + TOKEN_SAMPLE.token],
        logprob: f32FromBits(words[at + TOKEN_SAMPLE.logprob]),
        top: topCount === 0 ? NO_ALTERNATIVES : alternatives(words, at + TOKEN_SAMPLE_WORDS, topCount),
      };
      this.sink.token(words[at + TOKEN_SAMPLE.request], sample, words[at + TOKEN_SAMPLE.flags]);
      at += TOKEN_SAMPLE_WORDS + 2 * topCount;
    }
  }

  private notices(words: Int32Array, at: number, count: number): void {
    for (let i = 0; i < count; i++, at += NOTICE_WORDS) {
      this.sink.notice(words[at + NOTICE.request], words[at + NOTICE.kind], words[at + NOTICE.a], words[at + NOTICE.b]);
    }
  }
}

function alternatives(words: Int32Array, at: number, count: number): TokenAlternative[] {
  const list: TokenAlternative[] = [];
  for (let i = 0; i < count; i++, at += 2) list.push({ token: words[at], logprob: f32FromBits(words[at + 1]) });
  return list;
}
