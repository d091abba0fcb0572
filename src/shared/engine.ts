/**
 * The typed edge to the engine. Two implementations: `src/workers/native-engine.ts` over the addon, `src/workers/fake-engine.ts` for
 * tests. Only the forward worker holds one. JavaScript validates meaning before a call; the addon validates types, state, bounds.
 */

export type KvType = 'f16' | 'q8_0' | 'q4_0' | 'f32' | 'bf16';
export type KvLayout = 'shared' | 'private';
export type FlashAttention = 'auto' | 'on' | 'off';

export interface ModelOptions {
  /** Path of a GGUF file (the first, when it is split). */
  path: string;
  /** Layers kept on the GPU; −1: all. Without a GPU it has no effect. */
  gpuLayers: number;
  /** Names of devices to use, as `devices()` gives them; empty: all GPUs there are, else the CPU. */
  devices: string[];
  useMmap: boolean;
  useMlock: boolean;
}

export interface ModelInfo {
  /** Process-wide id by which other threads attach to the loaded model's vocabulary (VocabularyHandle). */
  handle: number;
  description: string;
  architecture: string;
  /** Bytes of all tensors. */
  sizeBytes: number;
  parameterCount: number;
  trainContextTokens: number;
  layerCount: number;
  embeddingLength: number;
  queryHeadCount: number;
  kvHeadCount: number;
  vocabularySize: number;
  /** Window of sliding-window layers, tokens; 0: none. */
  slidingWindowTokens: number;
  isRecurrent: boolean;
  isHybrid: boolean;
  hasEncoder: boolean;
  hasDecoder: boolean;
  /** False where the end of a cached sequence cannot be removed (recurrent, hybrid, sliding window). */
  canTrim: boolean;
  chatTemplate: string | null;
  /** GGUF metadata, scalar values as text (arrays are left out). */
  metadata: Record<string, string>;
}

export interface ContextSpec {
  layout: KvLayout;
  /** Sequences the context can hold at once. */
  sequences: number;
  /** Cells: of the whole pool (shared) or of each stream (private). The engine rounds up to 256. */
  cells: number;
  /** Tokens of one decode call at most; the scheduler's step budget never exceeds it. */
  batchTokens: number;
  /** Tokens of one ubatch at most: decides compute bytes. */
  ubatchTokens: number;
  keyType: KvType;
  valueType: KvType;
  flashAttention: FlashAttention;
  /** Engine threads for decode and for prompts. */
  threads: number;
  promptThreads: number;
  /** Idle streams computed along in a gap between decoding ones, at most (private streams); left out: what suits the device. */
  bridgedGap?: number;
}

/** Bytes by owner, of one device's buffer types together. */
export interface MemoryBreakdown {
  device: string;
  isHost: boolean;
  /** Weights that the CPU lays out its own way, an entry apart: memory of the process, where the others may be mapped from the file. */
  isRepacked?: boolean;
  modelBytes: number;
  contextBytes: number;
  computeBytes: number;
}

export interface ContextInfo {
  /** Cells of the pool (shared) or of one stream (private), as the engine rounded them. */
  cells: number;
  sequences: number;
  batchTokens: number;
  ubatchTokens: number;
  breakdown: MemoryBreakdown[];
  createMicros: number;
}

/** Live readings, bytes. 0 where a source does not exist. */
export interface Readings {
  deviceTotalBytes: number;
  deviceFreeBytes: number;
  systemTotalBytes: number;
  systemAvailableBytes: number;
  cgroupLimitBytes: number;
  cgroupUsedBytes: number;
  cgroupReclaimableBytes: number;
  processFootprintBytes: number;
  /** 0 none, 1 warning, 2 critical. */
  pressureLevel: number;
}

export interface DeviceInfo {
  name: string;
  description: string;
  kind: 'cpu' | 'gpu' | 'integrated-gpu' | 'accelerator';
  totalBytes: number;
  freeBytes: number;
}

/** Lines that the engine has logged, oldest first, in ggml's levels: 2 info, 3 warning, 4 error. `dropped`: older ones, for want of room. */
export interface EngineLogs {
  lines: Array<{ level: number; text: string }>;
  dropped: number;
}

export interface Engine {
  devices(): DeviceInfo[];
  /** @throws EngineError model_not_found, model_invalid, model_unsupported, cancelled. `onProgress` gets 0..1; false cancels. */
  loadModel(options: ModelOptions, onProgress?: (fraction: number) => boolean): ModelInfo;
  freeModel(): void;
  /** What a context would take, exactly, with nothing allocated. */
  measure(spec: ContextSpec): MemoryBreakdown[];
  /** @throws EngineError out_of_memory, invalid_argument. An earlier context is freed first. */
  createContext(spec: ContextSpec): ContextInfo;
  freeContext(): void;
  /**
   * Applies one batch record (batch-wire.ts), which lies in `words` from `at`, decodes, samples; writes step-output.ts into `output`.
   * Synchronous. Never throws for a decode that failed: the status says so.
   * @throws EngineError invalid_record when the record would trip an assertion inside the engine.
   */
  step(words: Int32Array, at: number, output: Int32Array): void;
  /** Bytes of one sequence's cells, out of and back into the context. `restore` returns false when they do not fit. */
  saveSequence(sequence: number): Uint8Array;
  restoreSequence(sequence: number, state: Uint8Array): boolean;
  /** Gives a saved state's memory back at once; it is empty afterwards. */
  releaseState(state: Uint8Array): void;
  /**
   * The same into the file at `path` and back from it, with no more in memory on the way than the sequence's cells of one tensor, and
   * `cachedBytes` of the file in the system's cache afterwards (Linux). Returns the file's bytes. `readSequence` returns false when the sequence
   * does not fit or the file cannot be read to its end.
   * @throws EngineError failed, when it cannot be written.
   */
  writeSequence(sequence: number, path: string, cachedBytes: number): number;
  readSequence(sequence: number, path: string): boolean;
  readings(): Readings;
  /** A flag that the engine polls while it decodes: an Int32 word in shared memory; non-zero aborts (CPU, Metal). */
  setAbortFlag(words: Int32Array, index: number): void;
  /** What was logged since the last call, from any thread. */
  drainLogs(): EngineLogs;
  close(): void;
}

export type EngineErrorCode =
  | 'engine_not_found'
  | 'model_not_found'
  | 'model_invalid'
  | 'model_unsupported'
  | 'cancelled'
  | 'out_of_memory'
  | 'invalid_argument'
  | 'invalid_record'
  | 'wrong_state'
  | 'failed';

export class EngineError extends Error {
  constructor(
    readonly code: EngineErrorCode,
    message: string,
  ) {
    super(message);
    this.name = 'EngineError';
  }
}

/** A vocabulary of a loaded model, usable from any thread while the model lives. Stateless and thread-safe in the engine. */
export interface Vocabulary {
  readonly size: number;
  /** −1 where the vocabulary has none. */
  readonly bos: number;
  readonly eos: number;
  readonly addsBos: boolean;
  /** Token ids of `text`. `parseSpecial`: control tokens in the text become themselves (only for trusted text). */
  tokenize(text: string, addSpecial: boolean, parseSpecial: boolean): Int32Array;
  /** Every token's bytes end to end, and where each begins (size + 1 offsets). Control tokens have no bytes unless `withControl`. */
  pieces(withControl: boolean): { offsets: Int32Array; bytes: Uint8Array };
  isEndOfGeneration(token: number): boolean;
  /** Prompt text of a conversation, by the model's own template. `inputs` is JSON (template-inputs.ts). @throws EngineError. */
  applyTemplate(inputsJson: string): string;
}
