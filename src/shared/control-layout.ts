/** Control block: one SharedArrayBuffer of Int32 words that every thread of a pipeline sees. */
export const CONTROL = {
  /** 0 run; 1 drain: finish what is admitted, then stop; 2 stop now. */
  stop: 0,
  /** Raised to abort the decode in progress (CPU and Metal). */
  abortDecode: 1,
  /** Milliseconds (performance.timeOrigin + now, low 31 bits) of each thread's last sign of life. */
  overlapHeartbeat: 2,
  forwardHeartbeat: 3,
  /** PEER_STATE of each worker. */
  overlapState: 4,
  forwardState: 5,
  /** 1 while the forward worker is inside the engine: its heartbeat may then be old. */
  forwardInEngine: 6,
  /** Records that the forward worker has taken; the overlap worker times its planning by it. */
  stepsStarted: 7,
} as const;
export const CONTROL_WORDS = 16;

export const STOP = { run: 0, drain: 1, now: 2 } as const;
export const PEER_STATE = { starting: 0, running: 1, ended: 2, dead: 3 } as const;
