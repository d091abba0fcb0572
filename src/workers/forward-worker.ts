import { parentPort, workerData } from 'node:worker_threads';
import { CONTROL, PEER_STATE } from '../shared/control-layout.js';
import { EngineError } from '../shared/engine.js';
import { drainEngineLog } from './engine-log.js';
import { ForwardLoop } from './forward-loop.js';
import { type OpenedEngine, openEngine } from './open-engine.js';
import { type StartedForward, startForward } from './start-forward.js';
import type { ForwardData, FromForward, ToForward, WorkerLogLevel } from './worker-messages.js';

/** Entry of the forward worker, the only owner of the device: loads, plans, waits for the rings, runs its loop until the stop word. */
const data = workerData as ForwardData;
const control = new Int32Array(data.core.control);
const port = parentPort;
if (!port) throw new Error('forward-worker runs as a worker thread only');

function post(message: FromForward): void {
  port?.postMessage(message);
}

function report(level: WorkerLogLevel, message: string): void {
  if (level !== 'debug' || data.debugLog) post({ type: 'log', level, message });
}

function fail(error: unknown): void {
  Atomics.store(control, CONTROL.forwardState, PEER_STATE.dead);
  const message = error instanceof Error ? error.message : String(error);
  const code = error instanceof EngineError ? error.code : 'failed';
  const detail = error instanceof Error && !(error instanceof EngineError) ? (error.stack ?? message) : message;
  post({ type: 'failed', code, message: detail });
}

/** What the engine said while it loaded comes before the word that it is ready, or that it is not. */
function startLogged(opened: OpenedEngine): StartedForward | null {
  try {
    const started = startForward(opened, data, post);
    drainEngineLog(opened.engine, report);
    return started;
  } catch (error) {
    // The error has the engine's reason in it, and is all that a user should have to read.
    drainEngineLog(opened.engine, (_, message) => report('debug', message));
    throw error;
  }
}

async function main(): Promise<void> {
  const opened = await openEngine(data);
  const started = startLogged(opened);
  if (!started) {
    opened.engine.close();
    return;
  }
  port?.once('message', ({ rings }: ToForward) => {
    try {
      Atomics.store(control, CONTROL.forwardState, PEER_STATE.running);
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
