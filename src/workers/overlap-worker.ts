import { parentPort, workerData } from 'node:worker_threads';
import { CONTROL, PEER_STATE } from '../shared/control-layout.js';
import { OverlapLoop } from './overlap-loop.js';
import type { FromOverlap, OverlapData, ToOverlap } from './worker-messages.js';

/** Entry of the overlap worker: waits for the rings, then runs its loop until the stop word. */
const { core } = workerData as OverlapData;
const control = new Int32Array(core.control);
const port = parentPort;
if (!port) throw new Error('overlap-worker runs as a worker thread only');

function post(message: FromOverlap): void {
  port?.postMessage(message);
}

port.once('message', ({ rings, options }: ToOverlap) => {
  try {
    Atomics.store(control, CONTROL.overlapState, PEER_STATE.running);
    new OverlapLoop(core, rings, options, (message) => post({ type: 'log', level: 'info', message })).run();
    Atomics.store(control, CONTROL.overlapState, PEER_STATE.ended);
    post({ type: 'ended' });
  } catch (error) {
    Atomics.store(control, CONTROL.overlapState, PEER_STATE.dead);
    post({ type: 'failed', message: error instanceof Error ? (error.stack ?? error.message) : String(error) });
  }
});
post({ type: 'online' });
