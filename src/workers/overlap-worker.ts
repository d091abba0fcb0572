import { parentPort, workerData } from 'node:worker_threads';
import { loadNativeAddon } from '../shared/addon-loader.js';
import { CONTROL, PEER_STATE } from '../shared/control-layout.js';
import { fakeHostReader } from './fake-machine.js';
import type { ReadHost } from './live-memory.js';
import { OverlapLoop } from './overlap-loop.js';
import type { FromOverlap, OverlapData, ToOverlap } from './worker-messages.js';

/** Entry of the overlap worker: waits for the rings, then runs its loop until the stop word. */
const { core, fake } = workerData as OverlapData;
const control = new Int32Array(core.control);
const port = parentPort;
if (!port) throw new Error('overlap-worker runs as a worker thread only');

function post(message: FromOverlap): void {
  port?.postMessage(message);
}

/** The engine's libraries are in this process already: the addon takes some milliseconds, at the first reading. */
function hostReader(): ReadHost {
  return fake ? fakeHostReader(fake.control ?? null) : () => loadNativeAddon().addon.hostReadings();
}

port.once('message', ({ rings, options, disk }: ToOverlap) => {
  try {
    Atomics.store(control, CONTROL.overlapState, PEER_STATE.running);
    const report = (message: string) => post({ type: 'log', level: 'info', message });
    new OverlapLoop(core, rings, options, report, hostReader(), disk).run();
    Atomics.store(control, CONTROL.overlapState, PEER_STATE.ended);
    post({ type: 'ended' });
  } catch (error) {
    Atomics.store(control, CONTROL.overlapState, PEER_STATE.dead);
    post({ type: 'failed', message: error instanceof Error ? (error.stack ?? error.message) : String(error) });
  }
});
post({ type: 'online' });
