import { Worker } from 'node:worker_threads';

/** Started, and nobody's yet. */
let early: Worker | null = null;

function newThread(): Worker {
  return new Worker(new URL('../workers/forward-worker.js', import.meta.url), { name: 'plimsoll-forward' });
}

/**
 * Starts the forward worker's thread before it is known what it will do: it boots and imports its code while this thread does the same. It
 * keeps no process alive.
 */
export function startForwardThreadEarly(): void {
  const worker = newThread();
  worker.unref();
  const forget = () => {
    early = null;
  };
  worker.once('error', forget);
  worker.once('exit', forget);
  early = worker;
}

/** A thread that waits for its ForwardData: the early one, or a new one. */
export function takeForwardThread(): Worker {
  const worker = early ?? newThread();
  early = null;
  worker.ref();
  return worker;
}
