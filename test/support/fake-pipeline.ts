/** The whole pipeline — main, overlap worker, forward worker, rings — over the fake engine. */

import type { WorkerPipeline } from '../../src/main/pipeline.js';
import type { FinishReason, GenerationRequest, Pipeline } from '../../src/main/pipeline-types.js';
import { type PipelineOptions, startPipeline } from '../../src/main/start-pipeline.js';
import { type ConfigInput, parseConfig } from '../../src/shared/config.js';
import type { PlimsollError } from '../../src/shared/errors.js';
import type { SamplingParams } from '../../src/shared/sampling.js';
import type { FakeEngineOptions } from '../../src/workers/fake-options.js';
import { GREEDY } from './scheduler-harness.js';

export function startFakePipeline(
  fake: Partial<FakeEngineOptions> = {},
  settings: ConfigInput = {},
  extra: Pick<PipelineOptions, 'log' | 'watch' | 'spillFolder'> & { modelPath?: string } = {},
): Promise<WorkerPipeline> {
  return startPipeline({
    config: parseConfig({ contextTokens: 2048, maxRunningRequests: 8, chunkTokens: 256, probe: false, ...settings }),
    modelPath: 'fake.gguf',
    fake,
    ...extra,
  });
}

export interface Answer {
  id: number;
  tokens: number[];
  cachedTokens: number;
  reason: FinishReason | PlimsollError;
}

/** Submits one greedy request and collects its answer; `onToken` sees the count of tokens so far. */
export function ask(
  pipeline: Pick<Pipeline, 'submit'>,
  promptTokens: ArrayLike<number>,
  params: Partial<SamplingParams> = {},
  onToken?: (count: number, id: number) => void,
  request: Partial<GenerationRequest> = {},
): Promise<Answer> {
  return new Promise((resolve) => {
    const answer: Answer = { id: 0, tokens: [], cachedTokens: -1, reason: 'stop' };
    answer.id = pipeline.submit(
      { promptTokens: Int32Array.from(promptTokens), sampling: { ...GREEDY, ...params }, ...request },
      {
        started: (cachedTokens) => {
          answer.cachedTokens = cachedTokens;
        },
        token: (sample) => {
          answer.tokens.push(sample.token);
          onToken?.(answer.tokens.length, answer.id);
        },
        finished: (reason) => resolve({ ...answer, reason }),
        failed: (error) => resolve({ ...answer, reason: error }),
      },
    );
  });
}

export function textTokens(text: string): Int32Array {
  return Int32Array.from(new TextEncoder().encode(text));
}
