/** The engine over the addon. One a forward worker, and used from that thread only. */

import {
  type EngineLogLine,
  engineCall,
  type LoadedAddon,
  loadNativeAddon,
  type NativeEngineObject,
} from '../shared/addon-loader.js';
import type {
  ContextInfo,
  ContextSpec,
  DeviceInfo,
  Engine,
  MemoryBreakdown,
  ModelInfo,
  ModelOptions,
  Readings,
} from '../shared/engine.js';

export class NativeEngine implements Engine {
  readonly #loaded: LoadedAddon;
  readonly #native: NativeEngineObject;

  /** @throws EngineError engine_not_found. */
  constructor() {
    this.#loaded = loadNativeAddon();
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
    return engineCall(() => this.#native.measure(spec));
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

  /** What the engine has logged since the last call, from any thread; `dropped`: lines that found the queue full. */
  drainLogs(): { lines: EngineLogLine[]; dropped: number } {
    return engineCall(() => this.#loaded.addon.drainLogs());
  }
}
