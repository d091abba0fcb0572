/** A piscina worker: template, tokenizer and grammar checks on the loaded model's vocabulary, which it opens once. */
import { workerData } from 'node:worker_threads';
import type { PrepareJob } from '../main/prepare-types.js';
import { openVocabulary } from '../shared/native-addon.js';
import { runPrepareJob } from './prepare-job.js';
import { movedResult } from './prepare-result.js';

export interface PrepareWorkerData {
  /** ModelInfo.handle. */
  modelHandle: number;
}

const vocabulary = openVocabulary((workerData as PrepareWorkerData).modelHandle);

export default function prepare(job: PrepareJob): unknown {
  return movedResult(runPrepareJob(vocabulary, job));
}
