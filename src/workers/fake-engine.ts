import { readFileSync, writeFileSync } from 'node:fs';
import { OP, OP_KIND, OP_WORDS, PLACEHOLDER, SEGMENT, SEGMENT_WORDS, START } from '../shared/batch-wire.js';
import {
  type ContextInfo,
  type ContextSpec,
  type DeviceInfo,
  type Engine,
  EngineError,
  type EngineLogs,
  type MemoryBreakdown,
  type ModelInfo,
  type ModelOptions,
  type Readings,
} from '../shared/engine.js';
import {
  SAMPLE,
  SAMPLE_WORDS,
  STEP_OUT,
  STEP_OUT_HEADER_WORDS,
  STEP_STATUS,
  stepOutputWords,
} from '../shared/step-output.js';
import { FakeCells, roundedCells } from './fake-cells.js';
import { checkSpec, invalid } from './fake-checks.js';
import { FakeDelay } from './fake-delay.js';
import { fakeModelInfo, fakeReadings } from './fake-machine.js';
import { FAKE_ENGINE_DEFAULTS, type FakeCrash, type FakeEngineOptions } from './fake-options.js';
import { type RecordLimits, RecordParts } from './fake-record.js';
import { FakeSampler } from './fake-sampler.js';
import { FAKE_VOCABULARY_SIZE } from './fake-vocabulary.js';

/**
 * An engine without a model, for tests and for measuring everything but the model: deterministic tokens (fake-tokens.ts), cells counted
 * as the real engine counts them, and every delay, failure and reading settable. A record that would trip an assertion in the real
 * engine, or that would silently compute nonsense there, throws invalid_record here.
 */
export class FakeEngine implements Engine {
  private readonly options: FakeEngineOptions;
  private readonly delay: FakeDelay;
  private readonly parts = new RecordParts();
  private isLoaded = false;
  private spec: ContextSpec | null = null;
  private cells: FakeCells | null = null;
  private limits: RecordLimits = { sequences: 0, batchTokens: 0, vocabularySize: FAKE_VOCABULARY_SIZE };
  private samplers: FakeSampler[] = [];
  /** Length of each sequence after the batch under check; −1: not in it. */
  private plannedLengths = new Int32Array(0);
  private isBroken = false;
  private stepCount = 0;
  /** Steps up to this one have had their lines drained. */
  private drainedStep = -1;
  private contextCount = 0;
  private saveCount = 0;
  private writeCount = 0;
  private restoreCount = 0;
  private readingCount = 0;
  /** Of this context's records; null before the first. */
  private epoch: number | null = null;
  private lastStepId: number | null = null;
  /** Epoch of the context before this one: records planned for it may still arrive. */
  private staleEpoch: number | null = null;

  constructor(options: Partial<FakeEngineOptions> = {}) {
    this.options = { ...FAKE_ENGINE_DEFAULTS, ...options };
    this.delay = new FakeDelay(this.options.control);
  }

  devices(): DeviceInfo[] {
    const { deviceTotalBytes, deviceFreeBytes } = this.currentReadings();
    return [
      {
        name: 'Fake0',
        description: 'fake device',
        kind: this.options.deviceKind,
        totalBytes: deviceTotalBytes,
        freeBytes: deviceFreeBytes,
      },
    ];
  }

  loadModel(_options: ModelOptions, onProgress?: (fraction: number) => boolean): ModelInfo {
    if (this.options.loadError) throw new EngineError(this.options.loadError, 'the fake engine was told to fail');
    for (const fraction of [0, 0.5, 1]) {
      if (onProgress?.(fraction) === false) throw new EngineError('cancelled', 'loading was cancelled');
      if (fraction < 1 && this.options.loadDelayMs > 0) this.delay.sleep(this.options.loadDelayMs / 2);
    }
    this.isLoaded = true;
    return fakeModelInfo(this.options);
  }

  freeModel(): void {
    this.freeContext();
    this.isLoaded = false;
  }

  measure(spec: ContextSpec): MemoryBreakdown[] {
    checkSpec(spec);
    const streams = spec.layout === 'shared' ? 1 : spec.sequences;
    return [
      {
        device: 'Fake0',
        isHost: false,
        modelBytes: this.options.modelBytes,
        contextBytes: roundedCells(spec.cells) * streams * this.options.bytesPerToken,
        computeBytes: spec.ubatchTokens * this.options.computeBytesPerUbatchToken,
      },
    ];
  }

  createContext(spec: ContextSpec): ContextInfo {
    if (!this.isLoaded) throw new EngineError('wrong_state', 'no model is loaded');
    const startedAt = performance.now();
    const breakdown = this.measure(spec);
    this.freeContext();
    this.contextCount++;
    const bytes = breakdown[0].contextBytes + breakdown[0].computeBytes;
    const limit = this.options.contextLimitBytes;
    if ((limit > 0 && bytes > limit) || this.options.failCreateContext.includes(this.contextCount)) {
      throw new EngineError('out_of_memory', `a context of ${bytes} bytes does not fit`);
    }
    this.spec = { ...spec };
    this.limits = { ...this.limits, sequences: spec.sequences, batchTokens: spec.batchTokens };
    this.cells = new FakeCells(spec, this.options.canTrim);
    this.samplers = Array.from({ length: spec.sequences }, () => new FakeSampler());
    this.plannedLengths = new Int32Array(spec.sequences);
    return {
      cells: this.cells.cellCount,
      sequences: spec.sequences,
      batchTokens: spec.batchTokens,
      ubatchTokens: spec.ubatchTokens,
      breakdown,
      createMicros: Math.round((performance.now() - startedAt) * 1000),
    };
  }

  freeContext(): void {
    if (this.epoch !== null) this.staleEpoch = this.epoch;
    this.spec = null;
    this.cells = null;
    this.samplers = [];
    this.isBroken = false;
    this.epoch = null;
    this.lastStepId = null;
  }

  step(words: Int32Array, at: number, output: Int32Array): void {
    const { spec, cells } = this;
    if (spec === null || cells === null) throw new EngineError('wrong_state', 'no context');
    if (this.isBroken) throw new EngineError('wrong_state', 'a step has failed: the context must be made anew');
    if (output.length < stepOutputWords(spec.sequences)) throw new EngineError('invalid_argument', 'output too small');
    this.stepCount++;
    this.hangOrCrash();
    const startedAt = performance.now();
    output.fill(0, 0, STEP_OUT_HEADER_WORDS);
    this.parts.read(words, at, this.limits);

    const failure = this.options.failAtStep.find(({ step }) => step === this.stepCount);
    if (failure?.status === STEP_STATUS.invalidRecord || !this.takeEpoch()) {
      output[STEP_OUT.status] = STEP_STATUS.invalidRecord;
    } else {
      this.applyOps(words, cells);
      this.applyStarts(words);
      const neededCells = this.checkSegments(words, cells, output);
      output[STEP_OUT.status] = this.decode(words, cells, neededCells, failure?.status ?? STEP_STATUS.ok, output);
      output[STEP_OUT.engineCode] = failure?.engineCode ?? 0;
      output[STEP_OUT.decodeMicros] = Math.round((performance.now() - startedAt) * 1000);
      if (output[STEP_OUT.status] === STEP_STATUS.ok) this.sample(words, cells, output);
    }
    output[STEP_OUT.kvUsedTokens] = cells.usedCells;
    this.delay.completed();
  }

  saveSequence(sequence: number): Uint8Array {
    this.saveCount++;
    if (this.options.failSave.includes(this.saveCount))
      throw new EngineError('out_of_memory', 'there is no memory for a saved sequence');
    return this.cellsFor(sequence).save(sequence);
  }

  restoreSequence(sequence: number, state: Uint8Array): boolean {
    this.restoreCount++;
    if (this.options.failRestore.includes(this.restoreCount)) return false;
    return this.cellsFor(sequence).restore(sequence, state);
  }

  releaseState(state: Uint8Array): void {
    // Moved away, so that whoever uses it afterwards notices.
    structuredClone(state, { transfer: [state.buffer as ArrayBuffer] });
  }

  writeSequence(sequence: number, path: string, _cachedBytes: number): number {
    const state = this.cellsFor(sequence).save(sequence);
    this.writeCount++;
    // What a disk that is full leaves behind.
    const isFull = this.options.failWrite.includes(this.writeCount);
    writeFileSync(path, isFull ? state.subarray(0, state.length >> 1) : state);
    if (isFull) throw new EngineError('failed', 'the engine could not write the sequence');
    return state.length;
  }

  readSequence(sequence: number, path: string): boolean {
    return this.restoreSequence(sequence, new Uint8Array(readFileSync(path)));
  }

  readings(): Readings {
    this.readingCount++;
    return this.currentReadings();
  }

  setAbortFlag(words: Int32Array, index: number): void {
    this.delay.setAbortFlag(words, index);
  }

  drainLogs(): EngineLogs {
    const from = this.drainedStep;
    this.drainedStep = this.stepCount;
    return { lines: this.options.logAtStep.filter(({ step }) => step > from && step <= this.stepCount), dropped: 0 };
  }

  close(): void {
    this.freeModel();
  }

  private hangOrCrash(): void {
    if (this.options.hangAtStep === this.stepCount) this.delay.hang();
    if (this.options.crashAtStep?.step === this.stepCount) crash(this.options.crashAtStep.kind);
  }

  /** False for a record of an earlier context. @throws EngineError when epoch or step ids go astray within one context. */
  private takeEpoch(): boolean {
    const { epoch, stepId } = this.parts;
    if (this.epoch === null) {
      if (this.staleEpoch !== null && ((epoch - this.staleEpoch) | 0) <= 0) return false;
      this.epoch = epoch;
    }
    if (((epoch - this.epoch) | 0) < 0) return false;
    if (epoch !== this.epoch) throw invalid(`epoch ${epoch} in a context of epoch ${this.epoch}`);
    if (this.lastStepId !== null && ((stepId - this.lastStepId) | 0) <= 0) {
      throw invalid(`step ${stepId} after step ${this.lastStepId}`);
    }
    this.lastStepId = stepId;
    return true;
  }

  private applyOps(words: Int32Array, cells: FakeCells): void {
    for (let i = 0; i < this.parts.opCount; i++) {
      const op = this.parts.opsAt + i * OP_WORDS;
      const sequence = words[op + OP.sequence];
      const kind = words[op + OP.kind];
      if (kind === OP_KIND.stop) {
        this.samplers[sequence].stop();
      } else if (kind === OP_KIND.copy) {
        cells.copy(sequence, words[op + OP.destination], words[op + OP.from], words[op + OP.to]);
      } else {
        cells.remove(sequence, words[op + OP.from], words[op + OP.to]);
      }
    }
  }

  private applyStarts(words: Int32Array): void {
    let start = this.parts.startsAt;
    for (let i = 0; i < this.parts.startCount; i++) {
      const sampler = this.samplers[words[start + START.sequence]];
      if (sampler.isActive) {
        throw invalid(
          `start of request ${words[start + START.request]} on sequence ${words[start + START.sequence]}, ` +
            `which still runs request ${sampler.request}`,
        );
      }
      start = sampler.start(words, start);
    }
  }

  /** Checks each segment against its sequence. Returns the cells that the batch needs, or −1 when there is no room. */
  private checkSegments(words: Int32Array, cells: FakeCells, output: Int32Array): number {
    this.plannedLengths.fill(-1);
    let needed = 0;
    let hasRoom = true;
    for (let i = 0; i < this.parts.segmentCount; i++) {
      const segment = this.parts.segmentsAt + i * SEGMENT_WORDS;
      const sequence = words[segment + SEGMENT.sequence];
      if (this.isDropped(words, segment)) {
        output[STEP_OUT.droppedCount]++;
        continue;
      }
      if (this.plannedLengths[sequence] !== -1) throw invalid(`sequence ${sequence} has two segments in one record`);
      const length = cells.lengthOf(sequence);
      const position = words[segment + SEGMENT.position];
      if (position !== length) throw invalid(`sequence ${sequence} goes on at ${position}, but has ${length} tokens`);
      needed += words[segment + SEGMENT.count];
      this.plannedLengths[sequence] = length + words[segment + SEGMENT.count];
      hasRoom &&= cells.hasRoom(this.plannedLengths[sequence], needed);
    }
    return hasRoom ? needed : -1;
  }

  /** Whether the segment is a placeholder of a request that is over. @throws EngineError on a segment of a request that cannot be. */
  private isDropped(words: Int32Array, segment: number): boolean {
    const sequence = words[segment + SEGMENT.sequence];
    const request = words[segment + SEGMENT.request];
    const sampler = this.samplers[sequence];
    const isPlaceholder = words[segment + SEGMENT.tokenIndex] === PLACEHOLDER;
    const needsSampler = isPlaceholder || words[segment + SEGMENT.sample] === 1;
    if (sampler.request !== request && (needsSampler || sampler.isActive)) {
      throw invalid(`a segment of request ${request} on sequence ${sequence}, which is bound to ${sampler.request}`);
    }
    if (!sampler.isActive && isPlaceholder) return true;
    if (!sampler.isActive && needsSampler) {
      throw invalid(`a sample for request ${request} on sequence ${sequence}, which is over`);
    }
    if (isPlaceholder && sampler.pendingToken < 0) {
      throw invalid(`a placeholder on sequence ${sequence}, which has sampled no token since its last decode`);
    }
    return false;
  }

  /** Runs the batch. Returns its STEP_STATUS. */
  private decode(words: Int32Array, cells: FakeCells, needed: number, scripted: number, output: Int32Array): number {
    if (needed < 0) return STEP_STATUS.noKvSlot;
    const micros = needed === 0 ? 0 : this.options.decodeDelayMicros + this.options.perTokenDelayMicros * needed;
    const isAborted = this.delay.decode(micros) || scripted === STEP_STATUS.aborted;
    if (scripted === STEP_STATUS.failed) this.isBroken = true;
    if (scripted !== STEP_STATUS.ok && !isAborted) return scripted;
    const segments = isAborted
      ? Math.min(this.options.abortKeepsSegments, this.parts.segmentCount)
      : this.parts.segmentCount;
    let decoded = 0;
    for (let i = 0; i < segments; i++)
      decoded += this.appendSegment(words, cells, this.parts.segmentsAt + i * SEGMENT_WORDS);
    output[STEP_OUT.decodedTokens] = decoded;
    return isAborted ? STEP_STATUS.aborted : STEP_STATUS.ok;
  }

  private appendSegment(words: Int32Array, cells: FakeCells, segment: number): number {
    const sequence = words[segment + SEGMENT.sequence];
    if (this.plannedLengths[sequence] === -1) return 0;
    const tokenIndex = words[segment + SEGMENT.tokenIndex];
    if (tokenIndex === PLACEHOLDER) {
      cells.append(sequence, this.samplers[sequence].pendingToken);
      this.samplers[sequence].pendingToken = -1;
      return 1;
    }
    const count = words[segment + SEGMENT.count];
    for (let j = 0; j < count; j++) cells.append(sequence, words[this.parts.tokensAt + tokenIndex + j]);
    return count;
  }

  private sample(words: Int32Array, cells: FakeCells, output: Int32Array): void {
    const startedAt = performance.now();
    let sampleCount = 0;
    for (let i = 0; i < this.parts.segmentCount; i++) {
      const segment = this.parts.segmentsAt + i * SEGMENT_WORDS;
      const sequence = words[segment + SEGMENT.sequence];
      if (words[segment + SEGMENT.sample] === 0 || this.plannedLengths[sequence] === -1) continue;
      sampleCount += this.sampleSegment(words, segment, cells, output, sampleCount);
    }
    output[STEP_OUT.sampleCount] = sampleCount;
    output[STEP_OUT.sampleMicros] = Math.round((performance.now() - startedAt) * 1000);
  }

  /** Samples after each token as long as the next one is what was sampled, and removes the rest. Returns how many samples it wrote. */
  private sampleSegment(
    words: Int32Array,
    segment: number,
    cells: FakeCells,
    output: Int32Array,
    from: number,
  ): number {
    const sequence = words[segment + SEGMENT.sequence];
    const rows = words[segment + SEGMENT.sample];
    const draftsAt = this.parts.tokensAt + words[segment + SEGMENT.tokenIndex] + 1;
    const sampler = this.samplers[sequence];
    if (rows > 1) cells.remove(sequence, words[segment + SEGMENT.position] + 1, -1);
    for (let row = 0; ; row++) {
      const at = STEP_OUT_HEADER_WORDS + (from + row) * SAMPLE_WORDS;
      sampler.sample(sequence, cells.hashOf(sequence), cells.lastTokenOf(sequence), this.options, output, at);
      const isRight = row + 1 < rows && sampler.isActive && output[at + SAMPLE.token] === words[draftsAt + row];
      if (!isRight) return row + 1;
      cells.append(sequence, words[draftsAt + row]);
    }
  }

  private currentReadings(): Readings {
    const breakdown = this.spec === null ? null : this.measure(this.spec)[0];
    const contextBytes = breakdown === null ? 0 : breakdown.contextBytes + breakdown.computeBytes;
    const usedBytes = (this.isLoaded ? this.options.modelBytes : 0) + contextBytes;
    return fakeReadings(this.options, this.delay, usedBytes, this.readingCount);
  }

  private cellsFor(sequence: number): FakeCells {
    if (this.cells === null) throw new EngineError('wrong_state', 'no context');
    if (!(sequence >= 0 && sequence < this.samplers.length)) {
      throw new EngineError('invalid_argument', `no sequence ${sequence}`);
    }
    return this.cells;
  }
}

function crash(kind: FakeCrash): void {
  // process.abort() is refused in worker threads; the signal is what a native assertion raises.
  if (kind === 'abort-process') process.kill(process.pid, 'SIGABRT');
  if (kind === 'exit-thread') process.exit(70);
  throw new Error('the fake engine was told to crash');
}
