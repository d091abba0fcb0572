/** Control block: one SharedArrayBuffer of Int32 words that every thread of a pipeline sees. */
export const CONTROL = {
  /** STOP. */
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
  /** The rung to rebuild the context on when memory ran out under the aborted decode (`rescueWord`); 0: none was asked for. */
  rescue: 7,
  /** FLUSH: whether a shutdown waits for prefixes to be written to disk. */
  flush: 8,
} as const;
export const CONTROL_WORDS = 16;

/** Every rung, RUNG_NONE included, as a word that is not 0. */
export const rescueWord = (rung: number): number => rung + 2;
export const rescuedRung = (word: number): number => word - 2;

export const FLUSH = { none: 0, asked: 1, done: 2 } as const;
export const STOP = { run: 0, now: 1 } as const;
export const PEER_STATE = { starting: 0, running: 1, ended: 2, dead: 3 } as const;
