import { RingProducer } from '../shared/ring.js';
import { encodeSampling } from '../shared/sampling.js';
import { assertBoundaries, SUBMIT, SUBMIT_FLAG, SUBMIT_HEADER_WORDS, SUBMIT_TYPE } from '../shared/submit-wire.js';
import type { GenerationRequest } from './pipeline-types.js';

/** Main's end of the submit ring. `false`: it is full now. */
export class SubmitWriter {
  private readonly ring: RingProducer;

  constructor(buffer: SharedArrayBuffer) {
    this.ring = new RingProducer(buffer);
  }

  request(id: number, request: GenerationRequest): boolean {
    const sampling = encodeSampling(request.sampling);
    const tokens = request.promptTokens;
    const { boundaries = [] } = request;
    assertBoundaries(boundaries, tokens.length);
    const length = SUBMIT_HEADER_WORDS + sampling.length + tokens.length + boundaries.length;
    return this.ring.push(SUBMIT_TYPE.request, length, (words, at) => {
      words.fill(0, at, at + SUBMIT_HEADER_WORDS);
      words[at + SUBMIT.request] = id;
      words[at + SUBMIT.promptTokens] = tokens.length;
      words[at + SUBMIT.priority] = request.priority ?? 0;
      words[at + SUBMIT.cacheSalt] = request.cacheSalt ?? 0;
      words[at + SUBMIT.flags] =
        (request.noPrefixCache ? SUBMIT_FLAG.noPrefixCache : 0) | (request.noDrafts ? SUBMIT_FLAG.noDrafts : 0);
      words[at + SUBMIT.samplingWords] = sampling.length;
      words[at + SUBMIT.maxWaitMs] = request.maxWaitMs ?? 0;
      words[at + SUBMIT.boundaries] = boundaries.length;
      words.set(sampling, at + SUBMIT_HEADER_WORDS);
      words.set(tokens, at + SUBMIT_HEADER_WORDS + sampling.length);
      words.set(boundaries, at + length - boundaries.length);
    });
  }

  cancel(id: number): boolean {
    return this.ring.push(SUBMIT_TYPE.cancel, 1, (words, at) => {
      words[at + SUBMIT.request] = id;
    });
  }
}
