/** The prepare worker over the fake vocabulary. A text of `wait` holds the worker until the test opens the gate. */
import { getEnvironmentData, threadId } from 'node:worker_threads';
import type { PrepareJob } from '../../src/main/prepare-types.js';
import { FakeVocabulary } from '../../src/workers/fake-vocabulary.js';
import { runPrepareJob } from '../../src/workers/prepare-job.js';
import { movedResult } from '../../src/workers/prepare-result.js';

const gate = new Int32Array(getEnvironmentData('gate') as SharedArrayBuffer);
const vocabulary = new FakeVocabulary();

export default function prepare(job: PrepareJob): unknown {
  if (job.kind === 'text' && job.text === 'thread') return { ok: true, tokens: Int32Array.of(threadId), text: '' };
  if (job.kind === 'text' && job.text === 'wait') {
    Atomics.store(gate, 1, 1);
    Atomics.notify(gate, 1);
    Atomics.wait(gate, 0, 0, 30_000);
  }
  return movedResult(runPrepareJob(vocabulary, job));
}
