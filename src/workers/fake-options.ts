import type { EngineErrorCode, Readings } from '../shared/engine.js';

/** What ends the worker, or the process, in the middle of a step. */
export type FakeCrash =
  /** An error of no known type leaves `step`. */
  | 'throw'
  /** The worker thread is gone without a goodbye. */
  | 'exit-thread'
  /** The whole process gets SIGABRT, as from an assertion in native code. */
  | 'abort-process';

/** A plain object: it travels to the forward worker as workerData. Steps count from 1, over the engine's whole life. */
export interface FakeEngineOptions {
  /** Time of one decode, and more of it for each token in the batch. */
  decodeDelayMicros: number;
  perTokenDelayMicros: number;
  loadDelayMs: number;
  /** `loadModel` throws this. */
  loadError: EngineErrorCode | null;

  /** Output tokens of a request before its end-of-generation token; 0: it never comes by count. */
  endOfGenerationAfter: number;
  /** Chance of end of generation at each token: decided by the tokens so far, so it is the same in every run. */
  endOfGenerationProbability: number;

  /** Steps that end with a STEP_STATUS other than ok. */
  failAtStep: Array<{ step: number; status: number; engineCode?: number }>;
  /** Lines that the engine logs in these steps; step 0: while it loads. */
  logAtStep: Array<{ step: number; level: number; text: string }>;
  /** Segments of an aborted batch that were processed before the abort and stay in memory. */
  abortKeepsSegments: number;
  /** This step never returns, and no abort flag helps; 0: none. */
  hangAtStep: number;
  crashAtStep: { step: number; kind: FakeCrash } | null;
  /** createContext fails with out_of_memory above this many bytes of KV and compute; 0: no limit. */
  contextLimitBytes: number;
  /** Calls of saveSequence (from 1) that fail with out_of_memory, and of restoreSequence that return false. */
  failSave: number[];
  failRestore: number[];
  /** Calls of writeSequence (from 1) that find the disk full. */
  failWrite: number[];
  /** Calls of createContext (from 1) that fail with out_of_memory whatever they ask. */
  failCreateContext: number[];

  /** cpu: RAM is the device. gpu: memory of its own. integrated-gpu: a limit of its own inside RAM. */
  deviceKind: 'cpu' | 'gpu' | 'integrated-gpu';
  modelBytes: number;
  bytesPerToken: number;
  computeBytesPerUbatchToken: number;
  trainContextTokens: number;
  /** False: the end of a sequence cannot be removed, as in recurrent and sliding-window models. */
  canTrim: boolean;
  /** Sides of the n-th call of `readings`, over the computed ones; the last entry stays. */
  readings: Array<Partial<Readings>>;
  /** FAKE_CONTROL words that a test shares with the engine; null: none. */
  control: SharedArrayBuffer | null;
}

export const FAKE_ENGINE_DEFAULTS: FakeEngineOptions = {
  decodeDelayMicros: 0,
  perTokenDelayMicros: 0,
  loadDelayMs: 0,
  loadError: null,
  endOfGenerationAfter: 0,
  endOfGenerationProbability: 0,
  failAtStep: [],
  logAtStep: [],
  abortKeepsSegments: 0,
  hangAtStep: 0,
  crashAtStep: null,
  contextLimitBytes: 0,
  failSave: [],
  failRestore: [],
  failWrite: [],
  failCreateContext: [],
  deviceKind: 'gpu',
  modelBytes: 64 * 2 ** 20,
  bytesPerToken: 1024,
  computeBytesPerUbatchToken: 4096,
  trainContextTokens: 32768,
  canTrim: true,
  readings: [],
  control: null,
};

/** Words by which a test holds the engine still and steers it while its thread runs. */
export const FAKE_CONTROL = {
  /** While this is not 0, a step waits inside its decode (the abort flag still ends it). Notify after clearing it. */
  hold: 0,
  /** Steps that have entered their decode, and those that are over. Both are notified. */
  entered: 1,
  completed: 2,
  /** Over systemAvailableBytes of the readings, MiB; 0: not used. */
  systemAvailableMib: 3,
  /** Over deviceFreeBytes, MiB; 0: not used. */
  deviceFreeMib: 4,
} as const;
export const FAKE_CONTROL_BYTES = 64;
