/** A piscina worker: template, tokenizer and grammar checks on the loaded model's vocabulary, which it opens once. */
import { workerData } from 'node:worker_threads';
import { Piscina } from 'piscina';
import type { PrepareJob, PrepareResult } from '../main/prepare-types.js';
import { openVocabulary } from '../shared/native-addon.js';
import { runPrepareJob } from './prepare-job.js';

export interface PrepareWorkerData {
  /** ModelInfo.handle. */
  modelHandle: number;
}

const vocabulary = openVocabulary((workerData as PrepareWorkerData).modelHandle);

export default function prepare(job: PrepareJob): unknown {
  const result = runPrepareJob(vocabulary, job);
  return result.ok && result.tokens.length > 0 ? moved(result, result.tokens) : result;
}

/** Hands the tokens over without a copy: a long prompt has megabytes of them. */
function moved(result: PrepareResult, tokens: Int32Array): unknown {
  return Piscina.move({
    [Piscina.transferableSymbol]: [tokens.buffer],
    [Piscina.valueSymbol]: result,
  } as never);
}
