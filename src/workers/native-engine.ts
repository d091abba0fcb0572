/** The engine over the addon. One a forward worker, and used from that thread only. */

import { engineCall, type LoadedAddon, type NativeEngineObject, openBackends } from '../shared/addon-loader.js';
import type {
  ContextInfo,
  ContextSpec,
  DeviceInfo,
  Engine,
  EngineLogs,
  MemoryBreakdown,
  ModelInfo,
  ModelOptions,
  Readings,
} from '../shared/engine.js';

/** ggml's level. */
const LOG_INFO = 2;
/** As the addon's own queue: a model load logs some 200 lines. */
const KEPT_LINES_MAX = 512;

export class NativeEngine implements Engine {
  readonly #loaded: LoadedAddon;
  readonly #native: NativeEngineObject;
  #logs: EngineLogs = { lines: [], dropped: 0 };

  /** `headLengths`: numbers in a key and in a value of the model to come, null where unknown: they choose among CPU backends. @throws EngineError engine_not_found. */
  constructor(headLengths: readonly number[] | null = null) {
    this.#loaded = openBackends(headLengths);
    this.#native = engineCall(() => new this.#loaded.addon.Engine());
  }

  devices(): DeviceInfo[] {
    return engineCall(() => this.#loaded.addon.devices());
  }

  loadModel(options: ModelOptions, onProgress?: (fraction: number) => boolean): ModelInfo {
    return engineCall(() => this.#native.loadModel(options, onProgress));
  }

  freeModel(): void {
    engineCall(() => this.#native.freeModel());
  }

  measure(spec: ContextSpec): MemoryBreakdown[] {
    this.#keepLogs();
    const breakdown = engineCall(() => this.#native.measure(spec));
    // The engine warns of contexts that are only considered, as if they were made.
    this.#keepLogs(LOG_INFO);
    return breakdown;
  }

  createContext(spec: ContextSpec): ContextInfo {
    return engineCall(() => this.#native.createContext(spec));
  }

  freeContext(): void {
    engineCall(() => this.#native.freeContext());
  }

  step(words: Int32Array, at: number, output: Int32Array): void {
    // No closure on the hot path: the addon's errors already carry their code, and are made EngineErrors only when there is one.
    try {
      this.#native.step(words, at, output);
    } catch (error) {
      engineCall(() => {
        throw error;
      });
    }
  }

  saveSequence(sequence: number): Uint8Array {
    return engineCall(() => this.#native.saveSequence(sequence));
  }

  restoreSequence(sequence: number, state: Uint8Array): boolean {
    return engineCall(() => this.#native.restoreSequence(sequence, state));
  }

  releaseState(state: Uint8Array): void {
    engineCall(() => this.#native.releaseState(state));
  }

  writeSequence(sequence: number, path: string, cachedBytes: number): number {
    return engineCall(() => this.#native.writeSequence(sequence, path, cachedBytes));
  }

  readSequence(sequence: number, path: string): boolean {
    return engineCall(() => this.#native.readSequence(sequence, path));
  }

  /** Device numbers are 0 on a machine without a GPU, or with a model that uses none. */
  readings(): Readings {
    return engineCall(() => this.#native.readings());
  }

  setAbortFlag(words: Int32Array, index: number): void {
    engineCall(() => this.#native.setAbortFlag(words, index));
  }

  close(): void {
    engineCall(() => this.#native.close());
  }

  drainLogs(): EngineLogs {
    this.#keepLogs();
    const logs = this.#logs;
    this.#logs = { lines: [], dropped: 0 };
    return logs;
  }

  /** Takes what was logged out of the addon's queue; its levels are at most `levelMax`. */
  #keepLogs(levelMax = Number.POSITIVE_INFINITY): void {
    const { lines, dropped } = engineCall(() => this.#loaded.addon.drainLogs());
    const kept = [...this.#logs.lines, ...lines.map(({ level, text }) => ({ level: Math.min(level, levelMax), text }))];
    const excess = Math.max(0, kept.length - KEPT_LINES_MAX);
    this.#logs = { lines: kept.slice(excess), dropped: this.#logs.dropped + dropped + excess };
  }
}
