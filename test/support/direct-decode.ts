/** The plainest way to use the engine: one sequence alone, token by token, with batch records made by hand. */
import type { TokenAlternative } from '../../src/main/pipeline-types.js';
import type { ContextSpec } from '../../src/shared/engine.js';
import { openVocabulary } from '../../src/shared/native-addon.js';
import { f32FromBits, type SamplingParams } from '../../src/shared/sampling.js';
import { TOP_LOGPROBS_MAX } from '../../src/shared/sampling-wire.js';
import {
  SAMPLE,
  SAMPLE_FLAG,
  SAMPLE_FLAGS_DONE,
  STEP_OUT,
  STEP_OUT_HEADER_WORDS,
  STEP_STATUS,
  stepOutputWords,
} from '../../src/shared/step-output.js';
import { NativeEngine } from '../../src/workers/native-engine.js';
import { batchRecord, type RecordPlan, type StepSample, samplesOf } from './batch-record.js';
import { requireTestModel, type TestModelName } from './test-models.js';

export interface GenerateOptions {
  sampling?: Partial<SamplingParams>;
  /** Called between two steps; true: the context was replaced, with sequence 0 carried over. */
  afterToken?: (count: number) => boolean;
}

export interface ShortfallOptions {
  /** The answer passed over ends of generation. */
  ignoreEos?: boolean;
  /** One more number: for the end of generation behind the answer. */
  isEnded?: boolean;
}

export class DirectDecode {
  readonly engine = new NativeEngine();
  readonly vocabulary;
  #output = new Int32Array(0);
  #chunkTokens = 0;
  #stepId = 1;

  constructor(model: TestModelName) {
    const options = { path: requireTestModel(model), gpuLayers: 0, devices: [], useMmap: true, useMlock: false };
    this.vocabulary = openVocabulary(this.engine.loadModel(options).handle);
  }

  /** `spec`: of the context that a pipeline stands on, so that kernels and roundings are the same. Prompts go in chunks as there. */
  createContext(spec: ContextSpec, chunkTokens = spec.batchTokens): void {
    this.engine.createContext(spec);
    this.#chunkTokens = chunkTokens;
    this.#output = new Int32Array(stepOutputWords(spec.sequences));
  }

  /** Up to `maxTokens` tokens; the end-of-generation token is not among them. */
  generate(prompt: readonly number[], maxTokens: number, options: GenerateOptions = {}): number[] {
    const { sampling = {}, afterToken } = options;
    this.#prefill(prompt, sampling);
    const tokens: number[] = [];
    for (;;) {
      const { token, flags } = this.#sample();
      if (flags & SAMPLE_FLAG.endOfGeneration) break;
      tokens.push(token);
      if (flags & SAMPLE_FLAGS_DONE || tokens.length >= maxTokens) break;
      const history = [...prompt, ...tokens];
      const isNewContext = afterToken?.(tokens.length) ?? false;
      const start = { sequence: 0, request: 1, sampling, history, sampledBefore: tokens.length };
      this.#step({
        starts: isNewContext ? [start] : [],
        segments: [{ sequence: 0, request: 1, position: history.length - 1, tokens: [token] }],
      });
    }
    this.#clear();
    return tokens;
  }

  /**
   * The answer is laid into the engine's mouth, token by token. For each: how far its log-probability is below the best one's; 0: it is
   * the engine's own choice; Infinity: it is not among the best twenty.
   */
  shortfalls(prompt: readonly number[], answer: readonly number[], options: ShortfallOptions = {}): number[] {
    const isEnd = (token: number) => this.vocabulary.isEndOfGeneration(token);
    const sampling = { logprobs: TOP_LOGPROBS_MAX };
    this.#prefill(prompt, sampling);
    const shortfalls = answer.map((token, index) => {
      const { top } = this.#sample();
      this.#step({
        // Started anew each time: an end of generation that the answer passed over must not end it here.
        starts: [{ sequence: 0, request: 1, sampling }],
        segments: [{ sequence: 0, request: 1, position: prompt.length + index, tokens: [token] }],
      });
      const allowed = options.ignoreEos ? top.filter((candidate) => !isEnd(candidate.token)) : top;
      return shortfallIn(allowed, (candidate) => candidate === token);
    });
    if (options.isEnded) shortfalls.push(shortfallIn(this.#sample().top, isEnd));
    this.#clear();
    return shortfalls;
  }

  /** One record as it is. @throws where the step does not end well. */
  run(record: Int32Array): StepSample[] {
    this.engine.step(record, 0, this.#output);
    const status = this.#output[STEP_OUT.status];
    if (status !== STEP_STATUS.ok) throw new Error(`a step by hand failed with status ${status}`);
    return samplesOf(this.#output);
  }

  close(): void {
    this.engine.close();
  }

  #prefill(prompt: readonly number[], sampling: Partial<SamplingParams>): void {
    const chunkTokens = this.#chunkTokens;
    for (let from = 0; from < prompt.length; from += chunkTokens) {
      const tokens = prompt.slice(from, from + chunkTokens);
      const isLast = from + tokens.length === prompt.length;
      this.#step({
        starts: from === 0 ? [{ sequence: 0, request: 1, sampling, history: [...prompt] }] : [],
        segments: [{ sequence: 0, request: 1, position: from, tokens, sample: isLast }],
      });
    }
  }

  #clear(): void {
    this.#step({
      ops: [
        { kind: 'stop', sequence: 0 },
        { kind: 'remove', sequence: 0 },
      ],
    });
  }

  #step(plan: Omit<RecordPlan, 'stepId'>): void {
    this.run(batchRecord({ stepId: this.#stepId++, ...plan }));
  }

  #sample(): { token: number; flags: number; top: TokenAlternative[] } {
    const output = this.#output;
    if (output[STEP_OUT.sampleCount] !== 1) throw new Error(`${output[STEP_OUT.sampleCount]} samples, expected one`);
    const at = STEP_OUT_HEADER_WORDS;
    const top = Array.from({ length: output[at + SAMPLE.topCount] }, (_, i) => ({
      token: output[at + SAMPLE.top + 2 * i],
      logprob: f32FromBits(output[at + SAMPLE.top + 2 * i + 1]),
    }));
    return { token: output[at + SAMPLE.token], flags: output[at + SAMPLE.flags], top };
  }
}

/** How far the best token that `isIt` lies below the best of all. */
function shortfallIn(top: readonly TokenAlternative[], isIt: (token: number) => boolean): number {
  const found = top.find(({ token }) => isIt(token));
  return found ? top[0].logprob - found.logprob : Number.POSITIVE_INFINITY;
}
