import { GREEDY_SAMPLING, type SamplingParams } from '../shared/sampling.js';
import type { Pipeline } from './pipeline-types.js';

const ONE_TOKEN: SamplingParams = { ...GREEDY_SAMPLING, maxTokens: 1, ignoreEos: true };
/** Tokens of the throw-away prompt: more than one, so that the prompt path is warm too. Chosen: small beside any start-up. */
const PROMPT_TOKENS = 8;

/** One throw-away request through all threads: weights get paged in and kernels compiled before the first client waits for them. */
export function warmUp(pipeline: Pipeline): Promise<void> {
  return new Promise((resolve, reject) => {
    const promptTokens = new Int32Array(Math.min(PROMPT_TOKENS, pipeline.contextTokens - 1)).fill(1);
    pipeline.submit(
      { promptTokens, sampling: ONE_TOKEN, noPrefixCache: true },
      { token: () => {}, finished: () => resolve(), failed: reject },
    );
  });
}
