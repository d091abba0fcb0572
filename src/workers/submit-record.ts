import { SAMPLING } from '../shared/sampling-wire.js';
import type { RequestSpec } from '../shared/scheduler/request.js';
import { SUBMIT, SUBMIT_FLAG, SUBMIT_HEADER_WORDS } from '../shared/submit-wire.js';

/**
 * A request as main sent it (submit-wire.ts), from the record of `lengthWords` words at `at`. Copies what it keeps: the ring's room is main's
 * again when this returns. `maxWaitMs`: for requests that name no time of their own.
 *
 * @throws Error for a record that contradicts itself: main and this worker are not of one build.
 */
export function readSubmit(words: Int32Array, at: number, lengthWords: number, maxWaitMs: number): RequestSpec {
  const promptCount = words[at + SUBMIT.promptTokens];
  const samplingWords = words[at + SUBMIT.samplingWords];
  const boundaryCount = words[at + SUBMIT.boundaries];
  if (lengthWords !== SUBMIT_HEADER_WORDS + samplingWords + promptCount + boundaryCount)
    throw new Error('a submit record contradicts itself');
  const samplingAt = at + SUBMIT_HEADER_WORDS;
  const promptAt = samplingAt + samplingWords;
  const sampling = words.slice(samplingAt, promptAt);
  const flags = words[at + SUBMIT.flags];
  return {
    id: words[at + SUBMIT.request],
    promptTokens: words.slice(promptAt, promptAt + promptCount),
    sampling,
    maxTokens: sampling[SAMPLING.maxTokens],
    penaltyLastTokens: sampling[SAMPLING.penaltyLastTokens],
    priority: words[at + SUBMIT.priority],
    cacheSalt: words[at + SUBMIT.cacheSalt],
    boundaries: Array.from(words.subarray(promptAt + promptCount, at + lengthWords)),
    usesPrefixCache: (flags & SUBMIT_FLAG.noPrefixCache) === 0,
    allowsDrafts: (flags & SUBMIT_FLAG.noDrafts) === 0,
    arrivedAtMs: performance.now(),
    maxWaitMs: words[at + SUBMIT.maxWaitMs] || maxWaitMs,
  };
}
