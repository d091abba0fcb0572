/** A model that may be unloaded, over fake pipelines. */

import type { Residence } from '../../src/main/pipeline-types.js';
import type { ChatPrompt, PreparePool } from '../../src/main/prepare-types.js';
import { type LoadedModel, ModelResidence, type ResidenceOptions } from '../../src/main/residence/model-residence.js';
import { startPipeline } from '../../src/main/start-pipeline.js';
import { type ConfigInput, parseConfig } from '../../src/shared/config.js';
import type { FakeEngineOptions } from '../../src/workers/fake-options.js';
import { textTokens } from './fake-pipeline.js';

/** Bytes of the text; fails when it is used after its model is gone. */
class BytePrepare implements PreparePool {
  private isClosed = false;

  async chat(inputsJson: string): Promise<ChatPrompt> {
    return { tokens: await this.text(JSON.parse(inputsJson).messages[0].content), boundaries: [] };
  }

  async text(text: string): Promise<Int32Array> {
    if (this.isClosed) throw new Error('the vocabulary is gone');
    return textTokens(text);
  }

  async render(inputsJson: string): Promise<string> {
    return inputsJson;
  }

  async checkGrammar(): Promise<void> {}

  async close(): Promise<void> {
    this.isClosed = true;
  }
}

export interface FakeResidence {
  residence: ModelResidence;
  logs: string[];
  /** Loads so far. `onLoad` is called before each but the first, and may hold or fail it. */
  loadCount(): number;
}

export async function startFakeResidence(
  options: Partial<ResidenceOptions>,
  settings: ConfigInput = {},
  fake: Partial<FakeEngineOptions> = {},
  onLoad: (signal: AbortSignal) => Promise<void> = async () => {},
): Promise<FakeResidence> {
  const logs: string[] = [];
  let loads = 0;
  const config = parseConfig({
    ...{ contextTokens: 2048, maxRunningRequests: 8, chunkTokens: 256, probe: false },
    ...settings,
  });
  const load = async (signal: AbortSignal, firstRequestId: number): Promise<LoadedModel> => {
    if (loads++ > 0) await onLoad(signal);
    const pipeline = await startPipeline({ config, modelPath: 'fake.gguf', fake, firstRequestId, signal });
    return { pipeline, prepare: new BytePrepare() };
  };
  const residence = await ModelResidence.start(
    {
      ...{ load, idleUnloadMs: 50, loadTimeoutMs: 60_000, waitingMax: 16 },
      log: (_level, message) => logs.push(message),
      ...options,
    },
    new AbortController().signal,
  );
  return { residence, logs, loadCount: () => loads };
}

export async function untilResidence({ residence }: FakeResidence, wanted: Residence): Promise<void> {
  while (residence.pipeline.residence !== wanted) await new Promise((resolve) => setTimeout(resolve, 5));
}
