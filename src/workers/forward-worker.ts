import { parentPort, workerData } from 'node:worker_threads';
import { CONTROL, PEER_STATE } from '../shared/control-layout.js';
import { EngineError } from '../shared/engine.js';
import { ForwardLoop } from './forward-loop.js';
import { openEngine } from './open-engine.js';
import { startForward } from './start-forward.js';
import type { ForwardData, FromForward, ToForward } from './worker-messages.js';

/** Entry of the forward worker, the only owner of the device: loads, plans, waits for the rings, runs its loop until the stop word. */
const data = workerData as ForwardData;
const control = new Int32Array(data.core.control);
const port = parentPort;
if (!port) throw new Error('forward-worker runs as a worker thread only');

function post(message: FromForward): void {
  port?.postMessage(message);
}

function fail(error: unknown): void {
  Atomics.store(control, CONTROL.forwardState, PEER_STATE.dead);
  const message = error instanceof Error ? error.message : String(error);
  const code = error instanceof EngineError ? error.code : 'failed';
  const detail = error instanceof Error && !(error instanceof EngineError) ? (error.stack ?? message) : message;
  post({ type: 'failed', code, message: detail });
}

async function main(): Promise<void> {
  const opened = await openEngine(data);
  const started = startForward(opened, data, post);
  if (!started) {
    opened.engine.close();
    return;
  }
  port?.once('message', ({ rings }: ToForward) => {
    try {
      Atomics.store(control, CONTROL.forwardState, PEER_STATE.running);
      const report = (level: 'info' | 'warn' | 'error', message: string) => post({ type: 'log', level, message });
      new ForwardLoop(
        opened.engine,
        started.ready.ladder.map((rung) => rung.spec),
        started.ready.rung,
        started.ready.epoch,
        data.core,
        rings,
        started.gauges,
        started.live,
        report,
      ).run();
      opened.engine.close();
      Atomics.store(control, CONTROL.forwardState, PEER_STATE.ended);
      post({ type: 'ended' });
    } catch (error) {
      fail(error);
    }
  });
  post(started.ready);
}

main().catch(fail);
