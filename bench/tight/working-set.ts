import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import type { MemoryGroup } from './memory-group.js';

/** Asked for by the project: the working set is looked at this often. */
const SAMPLE_INTERVAL_MS = 50;

/** Places in the shared numbers. */
export const SAMPLES = { count: 0, peakBytes: 1, longestGapMs: 2 } as const;

export interface SamplingData {
  folder: string;
  intervalMs: number;
  stop: SharedArrayBuffer;
  samples: SharedArrayBuffer;
}

export interface WorkingSet {
  samples: number;
  peakBytes: number;
  /** Longest time between two looks: on a busy machine more than the interval. */
  longestGapMs: number;
}

/** Samples the working set of a group from a thread of its own. */
export class WorkingSetSampler {
  private readonly stopWord = new SharedArrayBuffer(4);
  private readonly values = new SharedArrayBuffer(8 * 3);
  private readonly worker: Worker;
  private result: Promise<WorkingSet> | null = null;

  constructor(group: MemoryGroup) {
    const data: SamplingData & { version: string } = {
      folder: group.folder,
      version: group.version,
      intervalMs: SAMPLE_INTERVAL_MS,
      stop: this.stopWord,
      samples: this.values,
    };
    this.worker = new Worker(new URL('./sampling-thread.js', import.meta.url), { workerData: data });
  }

  /** May be called again. */
  stop(): Promise<WorkingSet> {
    this.result ??= this.end();
    return this.result;
  }

  private async end(): Promise<WorkingSet> {
    const ended = once(this.worker, 'exit');
    const word = new Int32Array(this.stopWord);
    Atomics.store(word, 0, 1);
    Atomics.notify(word, 0);
    await ended;
    const values = new Float64Array(this.values);
    return {
      samples: values[SAMPLES.count],
      peakBytes: values[SAMPLES.peakBytes],
      longestGapMs: values[SAMPLES.longestGapMs],
    };
  }
}
