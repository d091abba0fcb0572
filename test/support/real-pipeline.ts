/** The whole pipeline over the real engine, and the few moves that model tests make with it. */
import type { WorkerPipeline } from '../../src/main/pipeline.js';
import type { FinishReason, GenerationRequest, SampledToken } from '../../src/main/pipeline-types.js';
import { type PipelineOptions, startPipeline } from '../../src/main/start-pipeline.js';
import { type ConfigInput, parseConfig } from '../../src/shared/config.js';
import type { PlimsollError } from '../../src/shared/errors.js';
import type { SamplingParams } from '../../src/shared/sampling.js';
import { GREEDY } from './batch-record.js';
import { requireTestModel, type TestModelName } from './test-models.js';

/** One thread: the engine's threads spin at a barrier, which costs far more than it brings where cores are shared. */
const SETTINGS: ConfigInput = { contextTokens: 1024, maxRunningRequests: 9, threads: 1 };

export function startRealPipeline(
  model: TestModelName,
  settings: ConfigInput = {},
  extra: Pick<PipelineOptions, 'log' | 'fixedContext'> = {},
): Promise<WorkerPipeline> {
  return startPipeline({
    config: parseConfig({ ...SETTINGS, ...settings }),
    modelPath: requireTestModel(model),
    ...extra,
    log: (level, message) => {
      // The pipeline recovers from a step that failed, and its answers are right all the same: without this a test would not notice.
      if (level === 'error') throw new Error(message);
      extra.log?.(level, message);
    },
  });
}

export interface Completion {
  id: number;
  tokens: number[];
  samples: SampledToken[];
  cachedTokens: number;
  reason: FinishReason | PlimsollError;
}

/** One request: greedy, and without a cached prefix, unless it says otherwise. `onToken` sees the count of tokens so far. */
export function complete(
  pipeline: WorkerPipeline,
  promptTokens: ArrayLike<number>,
  sampling: Partial<SamplingParams>,
  request: Partial<GenerationRequest> = { noPrefixCache: true },
  onToken?: (count: number, id: number) => void,
): Promise<Completion> {
  return new Promise((resolve) => {
    const samples: SampledToken[] = [];
    let cachedTokens = -1;
    const end = (reason: Completion['reason']) =>
      resolve({ id, tokens: samples.map(({ token }) => token), samples, cachedTokens, reason });
    const id = pipeline.submit(
      { promptTokens: Int32Array.from(promptTokens), sampling: { ...GREEDY, ...sampling }, ...request },
      {
        started: (cached) => {
          cachedTokens = cached;
        },
        token: (sample) => {
          samples.push(sample);
          onToken?.(samples.length, id);
        },
        finished: end,
        failed: end,
      },
    );
  });
}

/** Keeps the engine busy with other requests until `stop`, which resolves when they are gone. */
export function keepBusy(pipeline: WorkerPipeline, prompts: readonly ArrayLike<number>[]): { stop(): Promise<void> } {
  const maxTokens = pipeline.contextTokens - Math.max(...prompts.map((prompt) => prompt.length));
  const overs: Promise<void>[] = [];
  const ids = prompts.map((prompt) => {
    let id = 0;
    overs.push(
      new Promise((resolve) => {
        id = pipeline.submit(
          {
            promptTokens: Int32Array.from(prompt),
            sampling: { ...GREEDY, maxTokens, ignoreEos: true },
            noPrefixCache: true,
          },
          { token: () => {}, finished: () => resolve(), failed: () => resolve() },
        );
      }),
    );
    return id;
  });
  return {
    async stop() {
      for (const id of ids) pipeline.cancel(id);
      await Promise.all(overs);
    },
  };
}
