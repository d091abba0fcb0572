import { parentPort, workerData } from 'node:worker_threads';
import { DiskLoop } from './disk-loop.js';
import type { DiskData, FromDisk, WorkerLogLevel } from './worker-messages.js';

/** Entry of the disk worker, which has the files of `--prefix-dir`. Runs its loop until the stop word. */
const { core, link, port, options } = workerData as DiskData;
if (!parentPort) throw new Error('disk-worker runs as a worker thread only');
const owner = parentPort;
const post = (message: FromDisk) => owner.postMessage(message);
const report = (level: WorkerLogLevel, message: string) => post({ type: 'log', level, message });
try {
  const loop = new DiskLoop(core, link, port, options, report);
  loop.open();
  post({ type: 'opened' });
  loop.run();
} catch (error) {
  // The server serves on: what is on the disk is computed instead.
  report('error', `saved prefixes are neither written nor read any more: ${(error as Error).message}`);
}
port.close();
