import { parentPort } from 'node:worker_threads';
import { CONTROL, PEER_STATE } from '../shared/control-layout.js';
import { EngineError } from '../shared/engine.js';
import { drainEngineLog } from './engine-log.js';
import { ForwardLoop } from './forward-loop.js';
import { type OpenedEngine, openEngine } from './open-engine.js';
import { type StartedForward, startForward } from './start-forward.js';
import type { ForwardData, FromForward, ToForward, WorkerLogLevel } from './worker-messages.js';

/** Entry of the forward worker, the only owner of the device: waits for its data, loads, plans, waits for the rings, runs its loop until the stop word. */
const port = parentPort;
if (!port) throw new Error('forward-worker runs as a worker thread only');

function post(message: FromForward): void {
  port?.postMessage(message);
}

/** What this worker is from the moment that it knows what to load. */
class ForwardThread {
  private readonly control: Int32Array;

  constructor(private readonly data: ForwardData) {
    this.control = new Int32Array(data.core.control);
  }

  async start(): Promise<void> {
    try {
      const opened = await openEngine(this.data.fake, this.data.model.path);
      const started = this.startLogged(opened);
      if (!started) {
        opened.engine.close();
        return;
      }
      port?.once('message', (message: ToForward) => this.run(opened, started, message));
      post(started.ready);
    } catch (error) {
      this.fail(error);
    }
  }

  /** What the engine said while it loaded comes before the word that it is ready, or that it is not. */
  private startLogged(opened: OpenedEngine): StartedForward | null {
    try {
      const started = startForward(opened, this.data, post);
      drainEngineLog(opened.engine, (level, message) => this.report(level, message));
      return started;
    } catch (error) {
      // The error has the engine's reason in it, and is all that a user should have to read.
      drainEngineLog(opened.engine, (_, message) => this.report('debug', message));
      throw error;
    }
  }

  private run({ engine }: OpenedEngine, { ready, gauges, live }: StartedForward, { rings, diskLink }: ToForward): void {
    try {
      Atomics.store(this.control, CONTROL.forwardState, PEER_STATE.running);
      new ForwardLoop(
        engine,
        ready.ladder.map((rung) => rung.spec),
        ready.rung,
        ready.epoch,
        this.data.core,
        rings,
        gauges,
        live,
        ready.memory === 'host',
        this.data.spillFolder,
        (level, message) => this.report(level, message),
        diskLink,
      ).run();
      engine.close();
      Atomics.store(this.control, CONTROL.forwardState, PEER_STATE.ended);
      post({ type: 'ended' });
    } catch (error) {
      this.fail(error);
    }
  }

  private report(level: WorkerLogLevel, message: string): void {
    if (level !== 'debug' || this.data.debugLog) post({ type: 'log', level, message });
  }

  private fail(error: unknown): void {
    Atomics.store(this.control, CONTROL.forwardState, PEER_STATE.dead);
    const message = error instanceof Error ? error.message : String(error);
    const code = error instanceof EngineError ? error.code : 'failed';
    const detail = error instanceof Error && !(error instanceof EngineError) ? (error.stack ?? message) : message;
    post({ type: 'failed', code, message: detail });
  }
}

port.once('message', (data: ForwardData) => new ForwardThread(data).start());
