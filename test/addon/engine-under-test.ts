/** A native engine with a model and a context, and the few moves that addon tests make with it. */
import type { ContextSpec } from '../../src/shared/engine.js';
import type { SamplingParams } from '../../src/shared/sampling.js';
import { STEP_OUT, stepOutputWords } from '../../src/shared/step-output.js';
import { NativeEngine } from '../../src/workers/native-engine.js';
import { batchRecord, type RecordPlan, type StepSample, samplesOf } from '../support/batch-record.js';
import { requireTestModel, type TestModelName } from '../support/test-models.js';

/** One thread: the engine's threads spin at a barrier, and test files run beside each other. */
export const SMALL_CONTEXT: ContextSpec = {
  layout: 'shared',
  sequences: 4,
  cells: 512,
  batchTokens: 256,
  ubatchTokens: 64,
  keyType: 'f16',
  valueType: 'f16',
  flashAttention: 'auto',
  threads: 1,
  promptThreads: 1,
};

export class EngineUnderTest {
  readonly engine = new NativeEngine();
  readonly vocabularySize: number;
  readonly handle: number;
  output: Int32Array = new Int32Array(0);
  #stepId = 1;

  constructor(model: TestModelName) {
    const options = { path: requireTestModel(model), gpuLayers: 0, devices: [], useMmap: true, useMlock: false };
    const info = this.engine.loadModel(options);
    this.vocabularySize = info.vocabularySize;
    this.handle = info.handle;
  }

  createContext(changes: Partial<ContextSpec> = {}): void {
    const spec = { ...SMALL_CONTEXT, ...changes };
    this.engine.createContext(spec);
    this.output = new Int32Array(new SharedArrayBuffer(stepOutputWords(spec.sequences) * 4));
  }

  /** One step; the record lies in shared memory, off its beginning, as in a ring. */
  step(plan: Omit<RecordPlan, 'stepId'>): StepSample[] {
    const record = batchRecord({ stepId: this.#stepId++, ...plan });
    const words = new Int32Array(new SharedArrayBuffer((record.length + 8) * 4));
    words.set(record, 8);
    this.engine.step(words, 8, this.output);
    return samplesOf(this.output);
  }

  result(name: keyof typeof STEP_OUT): number {
    return this.output[STEP_OUT[name]];
  }

  /** The plainest loop there is: the prompt, then token by token, one sequence alone, nothing left of it afterwards. */
  generate(prompt: ArrayLike<number>, count: number, sampling: Partial<SamplingParams> = {}, sequence = 0): number[] {
    const tokens = [
      this.step({
        starts: [{ sequence, request: 1, sampling }],
        segments: [{ sequence, request: 1, position: 0, tokens: prompt }],
      })[0],
    ];
    while (tokens.length < count && tokens.at(-1)?.flags === 0) {
      const position = prompt.length + tokens.length - 1;
      const previous = tokens.at(-1) as StepSample;
      tokens.push(this.step({ segments: [{ sequence, request: 1, position, tokens: [previous.token] }] })[0]);
    }
    this.step({
      ops: [
        { kind: 'stop', sequence },
        { kind: 'remove', sequence },
      ],
    });
    return tokens.map((sample) => sample.token);
  }

  close(): void {
    this.engine.close();
  }
}

/** Prompts of made-up but fixed tokens: below 256 every test vocabulary has bytes or pieces. */
export function tokensFrom(seed: number, count: number): number[] {
  return Array.from({ length: count }, (_, index) => 300 + ((seed * 7919 + index * 104729) % 5000));
}
