/** What the supervisor and the server process that it runs tell each other, over the IPC channel between them and once at start. */
import type { LineRecord, LineSubject } from './line-record.js';

/** Environment variable that makes a process the supervised server; its value is a `Birth` as JSON. */
export const SUPERVISED_MARK = 'PLIMSOLL_SUPERVISED';

/** Exit code of `serve` when its workers died and only a new process helps. Chosen: EX_SOFTWARE of sysexits.h, which no shell uses. */
export const EXIT_PIPELINE_DIED = 70;

/** What a server process gets to know when it is started. */
export interface Birth {
  /** Starts before this one. */
  restarts: number;
  /** A lowered line that could not be written to its file. */
  carried: { path: string; record: LineRecord } | null;
}

/** Where a lowered line would be remembered, and what this process was told to keep. */
export interface LineTarget {
  path: string;
  fraction: number;
  subject: LineSubject;
}

export type FromServer =
  | { type: 'hello'; shutdownTimeoutMs: number; logFormat: 'json' | 'text'; isSilent: boolean }
  | { type: 'line'; target: LineTarget }
  | { type: 'ready' }
  /** It ends because it was told to, so no end of it is a crash. */
  | { type: 'stopping' }
  /** It ends because its workers died; native code may keep it from doing so. */
  | { type: 'died' };

export type ToServer = { type: 'stop' };
