/** What travels by postMessage: start-up, errors, goodbyes. Everything on the hot path goes through shared memory. */
import type { MessagePort } from 'node:worker_threads';
import type { ContextInfo, ModelInfo, ModelOptions } from '../shared/engine.js';
import type { ContextRung } from '../shared/memory/context-ladder.js';
import type { DeviceMemory } from '../shared/memory/headroom.js';
import type { Plan, PlanFlags, Refusal } from '../shared/memory/plan-types.js';
import type { StateSize } from '../shared/memory/state-size.js';
import type { CoreBuffers, RingBuffers } from '../shared/pipeline-buffers.js';
import type { DiskOptions } from './disk-loop.js';
import type { FakeEngineOptions } from './fake-options.js';
import type { OverlapOptions } from './overlap-options.js';
import type { ProbeReport } from './probe-context.js';

export interface ForwardData {
  core: CoreBuffers;
  /** null: the engine of the addon. */
  fake: Partial<FakeEngineOptions> | null;
  model: ModelOptions;
  flags: PlanFlags;
  /** Where the line is, as a share of the limit. */
  lineFraction: number;
  threads: number;
  promptThreads: number;
  /** The number of threads follows the load of the machine (CPU only). */
  liveThreads: boolean;
  /** Whether anybody wants to read lines for debugging. */
  debugLog: boolean;
  /** Run the largest planned step before serving. */
  probe: boolean;
  /** The planned context from the start, with no smaller ones to begin with. */
  fixedContext: boolean;
  /** Where sequences wait while the context is replaced; null: they are computed again. */
  spillFolder: string | null;
}

/** Everything that main needs to know of the loaded model and the context that stands. */
export interface ForwardReady {
  type: 'ready';
  model: ModelInfo;
  memory: DeviceMemory;
  plan: Plan;
  /** Of a sequence in contexts of this plan. */
  stateSize: StateSize;
  /** The line that the plan keeps, as a share of the limit. */
  lineFraction: number;
  /** From the smallest context to the planned one, and which of them stands. */
  ladder: ContextRung[];
  rung: number;
  context: ContextInfo;
  probe: ProbeReport;
  epoch: number;
  /** Bytes of every token, in shared memory. */
  pieces: { offsets: Int32Array; bytes: Uint8Array };
  loadMs: number;
  planMs: number;
  measureCount: number;
  /** Sequences may wait in files while the context is replaced. */
  canSpill: boolean;
}

/** What the workers, which cannot log themselves, want logged. */
export type WorkerLogLevel = 'debug' | 'info' | 'warn' | 'error';

export type FromForward =
  | { type: 'progress'; fraction: number }
  | { type: 'log'; level: WorkerLogLevel; message: string }
  | ForwardReady
  | { type: 'refused'; refusal: Refusal }
  | { type: 'failed'; code: string; message: string }
  | { type: 'ended' };

/** `diskLink`: the window to the disk worker (disk-link.ts); null: there is none. */
export type ToForward = { type: 'rings'; rings: RingBuffers; diskLink: SharedArrayBuffer | null };

export interface OverlapData {
  core: CoreBuffers;
  /** As the forward worker has it: a fake engine's memory is not the machine's. */
  fake: Partial<FakeEngineOptions> | null;
}

/** The way to the disk worker: its commands and events (disk-messages.ts), and the window, which counts the events. */
export interface DiskAccess {
  port: MessagePort;
  link: SharedArrayBuffer;
}

export type ToOverlap = { type: 'start'; rings: RingBuffers; options: OverlapOptions; disk: DiskAccess | null };
export type FromOverlap =
  | { type: 'online' }
  | { type: 'log'; level: WorkerLogLevel; message: string }
  | { type: 'failed'; message: string }
  | { type: 'ended' };

export interface DiskData extends DiskAccess {
  core: CoreBuffers;
  options: DiskOptions;
}

/** `opened`: what is in the folder is known to the overlap worker. */
export type FromDisk = { type: 'log'; level: WorkerLogLevel; message: string } | { type: 'opened' };
