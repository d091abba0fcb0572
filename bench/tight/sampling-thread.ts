/** A thread that looks at a memory group every few milliseconds, whatever else the benchmark does. */
import { workerData } from 'node:worker_threads';
import { type GroupVersion, readUse, workingSetBytes } from './memory-files.js';
import { SAMPLES, type SamplingData } from './working-set.js';

const { folder, version, intervalMs, stop, samples } = workerData as SamplingData & { version: GroupVersion };
const stopWord = new Int32Array(stop);
const values = new Float64Array(samples);
let lastAtMs = performance.now();

while (Atomics.wait(stopWord, 0, 0, intervalMs) === 'timed-out') {
  const bytes = workingSetBytes(readUse(folder, version));
  const nowMs = performance.now();
  values[SAMPLES.count]++;
  values[SAMPLES.peakBytes] = Math.max(values[SAMPLES.peakBytes], bytes);
  values[SAMPLES.longestGapMs] = Math.max(values[SAMPLES.longestGapMs], nowMs - lastAtMs);
  lastAtMs = nowMs;
}
