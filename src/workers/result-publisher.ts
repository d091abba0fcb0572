import { CONTROL, STOP } from '../shared/control-layout.js';
import type { Doorbell } from '../shared/doorbell.js';
import { bellOf, type CoreBuffers, type RingBuffers } from '../shared/pipeline-buffers.js';
import { RESULT, RESULT_HEADER_WORDS, RESULT_SAMPLE_WORDS, RESULT_TYPE } from '../shared/result-wire.js';
import { RingProducer } from '../shared/ring.js';
import { SAMPLE, SAMPLE_WORDS, STEP_OUT, STEP_OUT_HEADER_WORDS } from '../shared/step-output.js';
import { TOKEN_SAMPLE_WORDS, TOKEN_TYPE } from '../shared/token-wire.js';

/** How long a full ring is waited for before the stop word is looked at again. */
const FULL_RING_WAIT_MS = 2;

/** Unwinds the forward loop when the stop word is raised in the middle of a wait. */
export class Stopped extends Error {
  constructor() {
    super('the pipeline was stopped');
  }
}

/** What a record's copies to and from the host tier came to. */
export interface StepCopies {
  /** Slots that could not be saved or restored. */
  readonly failed: readonly number[];
  readonly copyMicros: number;
}

/** The forward worker's outgoing ends: results to the overlap worker, tokens and notices to main. A full ring is waited for. */
export class ResultPublisher {
  private readonly control: Int32Array;
  private readonly results: RingProducer;
  private readonly tokens: RingProducer;
  private readonly overlapBell: Doorbell;
  private readonly mainBell: Doorbell;
  private readonly ownBell: Doorbell;

  constructor(core: CoreBuffers, rings: RingBuffers) {
    this.control = new Int32Array(core.control);
    this.results = new RingProducer(rings.result);
    this.tokens = new RingProducer(rings.token);
    this.overlapBell = bellOf(core, 'overlap');
    this.mainBell = bellOf(core, 'main');
    this.ownBell = bellOf(core, 'forward');
  }

  notices(source: Int32Array, from: number, lengthWords: number): void {
    const at = this.reserve(this.tokens, TOKEN_TYPE.notices, 1 + lengthWords, this.mainBell);
    const words = this.tokens.payloadWords;
    words[at] = lengthWords >> 2;
    for (let i = 0; i < lengthWords; i++) words[at + 1 + i] = source[from + i];
    this.tokens.commit();
    this.mainBell.ring();
  }

  /** One step's output (step-output.ts), to both readers. The overlap worker first: the next plan waits for it. */
  step(output: Int32Array, stepId: number, epoch: number, stepMicros: number, copies: StepCopies): void {
    this.stepResult(output, stepId, epoch, stepMicros, copies);
    if (output[STEP_OUT.sampleCount] > 0) this.stepTokens(output);
  }

  /** A context stands (or none): its rung, its cells, and the sequences that were carried into it. */
  context(epoch: number, rung: number, contextTokens: number, carried: readonly number[]): void {
    const at = this.reserve(this.results, RESULT_TYPE.context, RESULT_HEADER_WORDS + carried.length, this.overlapBell);
    const words = this.results.payloadWords;
    words.fill(0, at, at + RESULT_HEADER_WORDS);
    words[at + RESULT.epoch] = epoch;
    words[at + RESULT.rung] = rung;
    words[at + RESULT.contextTokens] = contextTokens;
    words[at + RESULT.sampleCount] = carried.length;
    carried.forEach((sequence, i) => {
      words[at + RESULT_HEADER_WORDS + i] = sequence;
    });
    this.results.commit();
    this.overlapBell.ring();
  }

  private stepResult(
    output: Int32Array,
    stepId: number,
    epoch: number,
    stepMicros: number,
    { failed, copyMicros }: StepCopies,
  ): void {
    const count = output[STEP_OUT.sampleCount];
    const failedAt = RESULT_HEADER_WORDS + count * RESULT_SAMPLE_WORDS;
    const length = failedAt + failed.length;
    const at = this.reserve(this.results, RESULT_TYPE.step, length, this.overlapBell);
    const words = this.results.payloadWords;
    words[at + RESULT.stepId] = stepId;
    words[at + RESULT.epoch] = epoch;
    words[at + RESULT.status] = output[STEP_OUT.status];
    words[at + RESULT.sampleCount] = count;
    words[at + RESULT.decodedTokens] = output[STEP_OUT.decodedTokens];
    words[at + RESULT.stepMicros] = stepMicros;
    words[at + RESULT.kvUsedTokens] = output[STEP_OUT.kvUsedTokens];
    words[at + RESULT.contextTokens] = 0;
    words[at + RESULT.rung] = 0;
    words[at + RESULT.failedCopies] = failed.length;
    words[at + RESULT.copyMicros] = copyMicros;
    for (let i = 0; i < failed.length; i++) words[at + failedAt + i] = failed[i];
    for (let i = 0; i < count; i++) {
      const from = STEP_OUT_HEADER_WORDS + i * SAMPLE_WORDS;
      const to = at + RESULT_HEADER_WORDS + i * RESULT_SAMPLE_WORDS;
      // A result sample is a prefix of a step sample: sequence, request, token, flags.
      for (let word = 0; word < RESULT_SAMPLE_WORDS; word++) words[to + word] = output[from + word];
    }
    this.results.commit();
    this.overlapBell.ring();
  }

  private stepTokens(output: Int32Array): void {
    const count = output[STEP_OUT.sampleCount];
    let length = 1;
    for (let i = 0; i < count; i++) {
      length += TOKEN_SAMPLE_WORDS + 2 * output[STEP_OUT_HEADER_WORDS + i * SAMPLE_WORDS + SAMPLE.topCount];
    }
    const at = this.reserve(this.tokens, TOKEN_TYPE.tokens, length, this.mainBell);
    const words = this.tokens.payloadWords;
    words[at] = count;
    let to = at + 1;
    for (let i = 0; i < count; i++) {
      const from = STEP_OUT_HEADER_WORDS + i * SAMPLE_WORDS;
      // A token sample is a step sample without its sequence: request, token, flags, logprob, topCount, alternatives.
      const sampleWords = TOKEN_SAMPLE_WORDS + 2 * output[from + SAMPLE.topCount];
      for (let word = 0; word < sampleWords; word++) words[to + word] = output[from + SAMPLE.request + word];
      to += sampleWords;
    }
    this.tokens.commit();
    this.mainBell.ring();
  }

  /** Room in a ring; waits while it is full. @throws Stopped. */
  private reserve(ring: RingProducer, type: number, lengthWords: number, readerBell: Doorbell): number {
    for (;;) {
      const at = ring.reserve(type, lengthWords);
      if (at >= 0) return at;
      if (Atomics.load(this.control, CONTROL.stop) === STOP.now) throw new Stopped();
      readerBell.ring();
      this.ownBell.wait(this.ownBell.read(), FULL_RING_WAIT_MS);
    }
  }
}
